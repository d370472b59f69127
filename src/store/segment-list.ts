/**
 * Where the entries of one log lie: for each batch its first number, its count and its row.
 *
 * A long stream has as many batches as commits, so they are packed: a batch costs about three bytes
 * (gap to the one before, count, distance of the rows), and every 64th is an anchor from which a
 * lookup begins. Numbers only, never bodies (F2).
 *
 * Invariant: batches are in order of their numbers and never overlap; gaps are possible, and `isDense` tells
 * them. Rows rise with the numbers, except where batches were moved into a later row.
 */
import { assert } from "../protocol/assert.ts";

export interface Segment {
  readonly first: number;
  readonly count: number;
  readonly row: number;
}

/** Small enough that a lookup decodes little, large enough that anchors cost little. */
const SEGMENTS_PER_ANCHOR = 64;
const BYTES_AT_FIRST = 16;
const NO_BYTES = new Uint8Array(0);
/** Three varints of numbers below 2^53. */
const SEGMENT_BYTES_MAX = 24;

/** The decoder's position: what the next packed segment is relative to. */
interface Place {
  readonly end: number;
  readonly row: number;
  readonly offset: number;
}

const START: Place = { end: 0, row: 0, offset: 0 };

export class SegmentList {
  #start: Place = START;
  /** Where every 64th segment begins, as far as it is kept. */
  #anchors: Place[] = [];
  #bytes: Uint8Array = NO_BYTES;
  #used = 0;
  #pushed = 0;
  #end = 0;
  #row = 0;

  /** One above the last number, 0 when there has been none. */
  get end(): number {
    return this.#end;
  }

  push(first: number, count: number, row: number): void {
    assert(count >= 1, "a batch is not empty");
    assert(first >= this.#end, "batches of a log do not overlap");
    if (this.#pushed % SEGMENTS_PER_ANCHOR === 0) {
      this.#anchors.push({ end: this.#end, row: this.#row, offset: this.#used });
    }
    this.#reserve(SEGMENT_BYTES_MAX);
    this.#write(first - this.#end);
    this.#write(count);
    this.#write(zigzag(row - this.#row));
    this.#pushed += 1;
    this.#end = first + count;
    this.#row = row;
  }

  /** The segment that holds `number`. */
  find(number: number): Segment | undefined {
    for (const segment of this.from(number)) return number < segment.first ? undefined : segment;
    return undefined;
  }

  /** The segments from the one that holds `number` on. */
  from(number: number): IteratorObject<Segment, undefined> {
    return this.#from(this.#anchorBefore(number)).filter(({ first, count }) => number < first + count);
  }

  [Symbol.iterator](): Iterator<Segment> {
    return this.#from(this.#start);
  }

  /** True when every number from `from` up to, not including, `end` is there, and none from `end` on. */
  isDense(from: number, end: number): boolean {
    if (this.#end > end || (this.#end < end && from < end)) return false;
    let next = from;
    for (const segment of this) {
      if (segment.first + segment.count <= from) continue;
      if (segment.first > next) return false;
      next = segment.first + segment.count;
    }
    return next >= end;
  }

  /** Lets go of the segments that hold nothing from `floor` on; returns their rows. */
  dropBelow(floor: number): readonly number[] {
    const rows: number[] = [];
    for (const { first, count, row } of this) {
      if (first + count > floor) break;
      rows.push(row);
      this.#start = { end: first + count, row, offset: this.#offsetAfter(this.#start.offset) };
    }
    if (rows.length > 0) this.#giveBack();
    return rows;
  }

  /**
   * All numbers from `first` on, `count` of them, lie in `row` now: one segment in the place of those that it
   * covers, or in a gap. Returns the rows of those that went.
   */
  replace(first: number, count: number, row: number): readonly number[] {
    const end = first + count;
    const before: Segment[] = [];
    const rows: number[] = [];
    let next: Segment | undefined;
    let { offset } = this.#start;
    for (const segment of this) {
      offset = this.#offsetAfter(offset);
      const segmentEnd = segment.first + segment.count;
      next = segment.first >= end ? segment : undefined;
      if (next !== undefined) break;
      if (segmentEnd <= first) {
        before.push(segment);
        continue;
      }
      assert(segment.first >= first && segmentEnd <= end, "whole batches are moved");
      rows.push(segment.row);
    }
    this.#rewrite([...before, { first, count, row }, ...(next === undefined ? [] : [next])], offset);
    return rows;
  }

  /** These segments, then the bytes from `offset` on as they are: they follow the last of them. */
  #rewrite(segments: readonly Segment[], offset: number): void {
    const rest = this.#bytes.slice(offset, this.#used);
    const anchors = this.#anchors.filter((anchor) => anchor.offset >= offset);
    const [end, row] = [this.#end, this.#row];
    this.#start = START;
    this.#anchors = [];
    this.#bytes = NO_BYTES;
    this.#used = 0;
    this.#pushed = 0;
    this.#end = 0;
    this.#row = 0;
    for (const segment of segments) this.push(segment.first, segment.count, segment.row);
    if (rest.length === 0) return;
    const shift = this.#used - offset;
    for (const anchor of anchors) this.#anchors.push({ ...anchor, offset: anchor.offset + shift });
    this.#reserve(rest.length);
    this.#bytes.set(rest, this.#used);
    this.#used += rest.length;
    this.#end = end;
    this.#row = row;
  }

  #offsetAfter(offset: number): number {
    for (let varints = 0; varints < 3; offset++) {
      if ((this.#bytes[offset] ?? 0) < 0x80) varints += 1;
    }
    return offset;
  }

  /** Moves the kept bytes to the front once they are the smaller part, so that each is moved seldom. */
  #giveBack(): void {
    const { offset } = this.#start;
    this.#anchors = this.#anchors.filter((anchor) => anchor.offset >= offset);
    if (offset * 2 < this.#used) return;
    this.#bytes = this.#bytes.slice(offset, this.#used);
    this.#used -= offset;
    this.#anchors = this.#anchors.map((anchor) => ({ ...anchor, offset: anchor.offset - offset }));
    this.#start = { ...this.#start, offset: 0 };
  }

  *#from(start: Place): Generator<Segment, undefined> {
    let { end, row, offset } = start;
    const read = (): number => {
      let value = 0;
      let unit = 1;
      for (;;) {
        const byte = this.#bytes[offset++] ?? 0;
        value += (byte & 0x7f) * unit;
        if (byte < 0x80) return value;
        unit *= 0x80;
      }
    };
    while (offset < this.#used) {
      const first = end + read();
      const count = read();
      row += unzigzag(read());
      end = first + count;
      yield { first, count, row };
    }
    return undefined;
  }

  /** The last anchor at or before the segment that could hold `number`. */
  #anchorBefore(number: number): Place {
    let low = 0;
    let high = this.#anchors.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#anchors[middle]?.end ?? Infinity) <= number) low = middle + 1;
      else high = middle;
    }
    return this.#anchors[low - 1] ?? this.#start;
  }

  #reserve(more: number): void {
    if (this.#used + more <= this.#bytes.length) return;
    const grown = new Uint8Array(Math.max(BYTES_AT_FIRST, this.#bytes.length * 2, this.#used + more));
    grown.set(this.#bytes.subarray(0, this.#used));
    this.#bytes = grown;
  }

  #write(value: number): void {
    while (value >= 0x80) {
      this.#bytes[this.#used++] = (value % 0x80) | 0x80;
      value = Math.floor(value / 0x80);
    }
    this.#bytes[this.#used++] = value;
  }
}

/** A move leads to a later row, and the batch after it back: small numbers of both signs. */
function zigzag(difference: number): number {
  return difference >= 0 ? difference * 2 : -difference * 2 - 1;
}

function unzigzag(code: number): number {
  return code % 2 === 0 ? code / 2 : -(code + 1) / 2;
}
