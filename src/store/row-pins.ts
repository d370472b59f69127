/**
 * Which rows of the commit log are still needed, and by how many streams.
 *
 * A row holds entries of many streams, so it may go only when the last of them lets go of it. The
 * counts lie in blocks of plain numbers, because a busy log keeps millions of rows (F2).
 *
 * Invariant: a row is freed once, when its last pin goes, and never while it has one.
 */
import { assert } from "../protocol/assert.ts";

const ROWS_PER_BLOCK = 256;

interface Block {
  readonly pins: Uint32Array;
  /** The most pins that each row has had. */
  readonly most: Uint32Array;
  pinnedRows: number;
}

export class RowPins {
  readonly #blocks = new Map<number, Block>();
  #freed: number[] = [];

  pin(row: number): void {
    const number = Math.floor(row / ROWS_PER_BLOCK);
    let block = this.#blocks.get(number);
    if (block === undefined) {
      block = {
        pins: new Uint32Array(ROWS_PER_BLOCK),
        most: new Uint32Array(ROWS_PER_BLOCK),
        pinnedRows: 0,
      };
      this.#blocks.set(number, block);
    }
    const at = row % ROWS_PER_BLOCK;
    const pins = block.pins[at] ?? 0;
    if (pins === 0) block.pinnedRows += 1;
    block.pins[at] = pins + 1;
    block.most[at] = Math.max(block.most[at] ?? 0, pins + 1);
  }

  unpin(row: number): void {
    const number = Math.floor(row / ROWS_PER_BLOCK);
    const block = this.#blocks.get(number);
    const at = row % ROWS_PER_BLOCK;
    const pins = block?.pins[at] ?? 0;
    assert(block !== undefined && pins > 0, "only a pinned row is let go");
    block.pins[at] = pins - 1;
    if (pins > 1) return;
    block.pinnedRows -= 1;
    if (block.pinnedRows === 0) this.#blocks.delete(number);
    this.#freed.push(row);
  }

  isPinned(row: number): boolean {
    return (this.#blocks.get(Math.floor(row / ROWS_PER_BLOCK))?.pins[row % ROWS_PER_BLOCK] ?? 0) > 0;
  }

  /** True when most of what was once needed in a pinned row is not any more. */
  isSparse(row: number): boolean {
    const block = this.#blocks.get(Math.floor(row / ROWS_PER_BLOCK));
    const at = row % ROWS_PER_BLOCK;
    const pins = block?.pins[at] ?? 0;
    return pins > 0 && pins * 2 <= (block?.most[at] ?? 0);
  }

  /** The rows that lost their last pin since the last call, and have not got a new one. */
  takeFreed(): readonly number[] {
    const freed = this.#freed.filter((row) => !this.isPinned(row));
    this.#freed = [];
    return [...new Set(freed)];
  }
}
