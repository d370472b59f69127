/**
 * Server-sent events, cut out of a provider's bytes: whole events only.
 *
 * What a cut connection leaves of an event is never passed on, so no parser above meets half a character or half an object.
 *
 * Invariant: the texts that came out, in order, are a prefix of what came in.
 */

import { StringDecoder } from "node:string_decoder";

/** Far above any event of a provider (images travel in them); what is longer is no event stream. */
const EVENT_CHARS_MAX = 64 * 1024 * 1024;

export interface SseEvent {
  /** Its `data` lines; empty for comments and for events without data. */
  readonly data: string;
  /** By which a reader may ask for what follows; of servers that give one. */
  readonly id: string | undefined;
  /** As it came, with the blank line behind it. */
  readonly text: string;
  /** The same, where it came alone. */
  readonly bytes?: Uint8Array;
}

/** Two ends of lines, in any of the three forms; a CR whose LF is still to come counts as one. */
const BOUNDARY = /(?:\r\n|\n|\r(?!\n)){2}/g;
const LINE_END = /\r\n|\n|\r/;
const LINE_FEED = 0x0a;
const BYTE_ORDER_MARK = "\uFEFF";
/** A boundary has up to four characters: so many may have come before its last one. */
const TAIL_CHARS = 3;

export class SseSplitter {
  /** Not the platform's `TextDecoder`, which takes longer for a token than everything else here together. */
  readonly #decoder = new StringDecoder("utf8");
  #isFirst = true;
  /** What has come of the next event. Its pieces are joined once, when it is complete: an event may have megabytes. */
  #pieces: string[] = [];
  #chars = 0;
  /** Their last characters: a boundary may begin in them. */
  #tail = "";

  /** The events that these bytes complete. Throws a RangeError for one that never ends. */
  push(bytes: Uint8Array): readonly SseEvent[] {
    const isBegun = this.#chars > 0;
    const text = this.#tail + this.#decoded(bytes);
    const events: SseEvent[] = [];
    let from = this.#tail.length;
    let begin = 0;
    BOUNDARY.lastIndex = 0;
    while (BOUNDARY.test(text)) {
      begin = BOUNDARY.lastIndex;
      events.push(eventOf(this.#pieces.join("") + text.slice(from, begin)));
      this.#pieces.length = 0;
      this.#chars = 0;
      from = begin;
    }
    this.#pieces.push(text.slice(from));
    this.#chars += text.length - from;
    this.#tail = text.slice(Math.max(begin, text.length - TAIL_CHARS));
    if (this.#chars > EVENT_CHARS_MAX) throw new RangeError("an event is too long");
    const [event, second] = events;
    if (isBegun || event === undefined || second !== undefined || this.#chars > 0) return events;
    // The decoder may have had a part of a character, or have one now.
    const isAll = bytes[0] === event.text.charCodeAt(0) && bytes.at(-1) === LINE_FEED;
    return isAll ? [{ ...event, bytes }] : events;
  }

  /** Without the mark that some servers begin with. */
  #decoded(bytes: Uint8Array): string {
    const text = this.#decoder.write(bytes);
    if (!this.#isFirst || text === "") return text;
    this.#isFirst = false;
    return text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text;
  }

  /** What is left when the body has ended in good order: some servers leave out the last blank line. */
  rest(): SseEvent {
    return eventOf(`${this.#pieces.join("")}\n\n`);
  }
}

function eventOf(text: string): SseEvent {
  // Nearly all events are one line of data.
  const isPlain = text.startsWith("data:") && text.indexOf("\n") === text.length - 2 && !text.includes("\r");
  if (isPlain) return { data: valueOf(text, 5, -2), id: undefined, text };
  const data: string[] = [];
  let id: string | undefined;
  for (const line of text.split(LINE_END))
    if (line.startsWith("data:")) data.push(valueOf(line, 5));
    else if (line.startsWith("id:")) id = valueOf(line, 3);
  return { data: data.join("\n"), id, text };
}

/** What stands behind the name of so many characters; one space in between is none of it. */
function valueOf(line: string, from: number, to?: number): string {
  return line.slice(line[from] === " " ? from + 1 : from, to);
}
