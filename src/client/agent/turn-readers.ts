/**
 * The readers of a turn, part by part: each has its own place, and begins at the turn's beginning.
 *
 * A reader waits for nothing but the next part and never holds up the turn: what it has not taken yet is joined in its queue, which
 * grows no larger than the turn's view.
 *
 * Invariant: what a reader has taken, and what waits for it, are together the view's text (`src/turn/parts.ts`).
 */
import { ChangeSignal } from "../../async/change-signal.ts";
import type { AgentServerMessage } from "../../protocol/messages.ts";
import {
  partsBetween,
  queued,
  settledBetween,
  type SettledPart,
  type StatePart,
  type TurnPart,
} from "../../turn/parts.ts";
import { EMPTY_VIEW, type TurnEnd, type TurnView } from "../../turn/view.ts";

type EndPart = Extract<TurnPart, { type: "end" }>;

class PartReader<Part extends TurnPart> implements AsyncIterableIterator<Part | EndPart, undefined> {
  #waiting: readonly (Part | EndPart)[] = [];
  #isOver = false;
  #failure: Error | undefined;
  readonly #changed = new ChangeSignal();
  readonly #onLeft: () => void;

  constructor(onLeft: () => void) {
    this.#onLeft = onLeft;
  }

  push(parts: readonly (Part | EndPart)[]): void {
    this.#waiting = parts.reduce(queued<Part | EndPart>, this.#waiting);
    this.#changed.notify();
  }

  /** What waits is still read; then the iteration ends, or throws. */
  finish(failure?: Error): void {
    this.#isOver = true;
    this.#failure = failure;
    this.#changed.notify();
  }

  async next(): Promise<IteratorResult<Part | EndPart, undefined>> {
    // Several calls may wait at once; between the condition and what follows another may take the part.
    for (;;) {
      const [value, ...rest] = this.#waiting;
      if (value !== undefined) {
        this.#waiting = rest;
        return { done: false, value };
      }
      if (this.#failure !== undefined) throw this.#failure;
      if (this.#isOver) return { done: true, value: undefined };
      await this.#changed.until(() => this.#isOver || this.#waiting.length > 0);
    }
  }

  async return(): Promise<IteratorResult<Part | EndPart, undefined>> {
    this.#waiting = [];
    this.finish();
    this.#onLeft();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

type Ending = Pick<PartReader<EndPart>, "push" | "finish">;

export class TurnReaders {
  readonly #live = new Set<PartReader<TurnPart>>();
  readonly #settled = new Set<PartReader<SettledPart>>();
  /** Set when the turn is over for this client; also later readers get their end from it. */
  #tellEnd: ((reader: Ending) => void) | undefined;

  changed(before: TurnView, after: TurnView, heard: AgentServerMessage | undefined): void {
    const live = this.#live.size === 0 ? [] : partsBetween(before, after, heard);
    for (const reader of this.#live) reader.push(live);
    const settled = this.#settled.size === 0 ? [] : settledBetween(before, after);
    for (const reader of this.#settled) reader.push(settled);
  }

  /** For readers that read as it comes. */
  connection(part: StatePart): void {
    for (const reader of this.#live) reader.push([part]);
  }

  ended(end: TurnEnd): void {
    this.#close((reader) => {
      reader.push([{ type: "end", end }]);
      reader.finish();
    });
  }

  failed(cause: Error): void {
    this.#close((reader) => reader.finish(cause));
  }

  live(view: TurnView): AsyncIterableIterator<TurnPart> {
    return this.#admit(this.#live, partsBetween(EMPTY_VIEW, view));
  }

  settled(view: TurnView): AsyncIterableIterator<SettledPart> {
    return this.#admit(this.#settled, settledBetween(EMPTY_VIEW, view));
  }

  #admit<Part extends TurnPart>(readers: Set<PartReader<Part>>, soFar: readonly Part[]): PartReader<Part> {
    const reader = new PartReader<Part>(() => void readers.delete(reader));
    reader.push(soFar);
    readers.add(reader);
    this.#tellEnd?.(reader);
    return reader;
  }

  #close(tellEnd: (reader: Ending) => void): void {
    this.#tellEnd = tellEnd;
    for (const reader of this.#live) tellEnd(reader);
    for (const reader of this.#settled) tellEnd(reader);
  }
}
