/**
 * What the client's side has said, as the application reads it: first the log, then live.
 *
 * Past chunks are read from the store as the application asks for them; new ones wait here until it
 * does. Takeovers stand where they happened: before the first chunk of the new writer.
 */
import { BoundedQueue } from "../async/bounded-queue.ts";
import type { Writer } from "../core/stream-state.ts";
import type { ClientInput } from "./application.ts";
import { inputOf } from "./log-views.ts";
import type { LogReader } from "./stream-logs.ts";

export class InputFeed implements AsyncIterable<ClientInput> {
  readonly pastInputs: number;
  readonly #logs: LogReader;
  readonly #takeovers: readonly Writer[];
  readonly #pastChunks: number;
  readonly #live = new BoundedQueue<ClientInput>({ sizeOf });

  constructor(logs: LogReader, writers: readonly Writer[], nextSeqno: number) {
    this.#logs = logs;
    this.#takeovers = writers.slice(1);
    this.#pastChunks = nextSeqno;
    this.pastInputs = nextSeqno + this.#takeovers.length;
  }

  /** What has come live and the application has not read yet. */
  get unreadBytes(): number {
    return this.#live.size;
  }

  push(input: ClientInput): void {
    this.#live.push(input);
  }

  /** No more will come: the stream ended, or this host has lost it. */
  finish(): void {
    this.#live.finish();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ClientInput> {
    yield* this.#past();
    yield* this.#live;
  }

  async *#past(): AsyncGenerator<ClientInput> {
    let seqno = 0;
    let taken = 0;
    const takeoversBefore = (limit: number): readonly ClientInput[] => {
      const due: ClientInput[] = [];
      for (; ; taken++) {
        const next = this.#takeovers[taken];
        if (next === undefined || next.sinceSeqno > limit) return due;
        due.push({ kind: "takeover", sinceSeqno: next.sinceSeqno, sinceEvent: next.sinceEvent });
      }
    };
    while (seqno < this.#pastChunks) {
      for (const chunk of await this.#logs.readChunks(seqno)) {
        if (chunk.seqno >= this.#pastChunks) break;
        yield* takeoversBefore(chunk.seqno);
        yield inputOf(chunk);
        seqno = chunk.seqno + 1;
      }
    }
    yield* takeoversBefore(seqno);
  }
}

/** Empty inputs cost something too. */
function sizeOf(input: ClientInput): number {
  return INPUT_BYTES + (input.kind === "chunk" ? input.body.length : 0);
}

const INPUT_BYTES = 64;
