/**
 * How one stream's commits reach the store. The first commit of a stream that is not there yet makes it: opening record and first chunk
 * are one record and one sync, as on the client's side (A5).
 *
 * Invariant: no client learns of a stream before the store has it. Until then it is *unborn*, and other attaches to it wait.
 */
import type { StreamName, StreamState } from "../core/stream-state.ts";
import type { Commit, Creation, StreamStore } from "../store/stream-store.ts";

/** What making a stream takes besides its first commit. */
export interface Birth extends Pick<Creation, "keyCheck" | "conversationCheck" | "host"> {
  /** Its name was drawn for it: it can never have been opened before. */
  readonly isNew: boolean;
}

type Contents = NonNullable<Creation["first"]> & Pick<Commit, "letters">;

export class StreamCommits {
  readonly #store: StreamStore;
  readonly #name: StreamName;
  readonly #born = Promise.withResolvers<void>();
  #birth: Birth | undefined;

  /** Without a birth the stream is in the store. */
  constructor(store: StreamStore, name: StreamName, birth: Birth | undefined) {
    this.#store = store;
    this.#name = name;
    this.#birth = birth;
    if (birth === undefined) this.#born.resolve();
  }

  get isUnborn(): boolean {
    return this.#birth !== undefined;
  }

  /** Resolves when the stream is in the store, or will never be on this host's account. */
  get born(): Promise<void> {
    return this.#born.promise;
  }

  /** False when another host has the stream: then nothing was committed. */
  async commit(expected: StreamState, contents: Contents): Promise<boolean> {
    const name = this.#name;
    if (this.#birth === undefined) {
      const { hostEpoch, nextSeqno, eventHead } = expected;
      const commit = { ...contents, name, expected: { hostEpoch, nextSeqno, eventHead } };
      return (await this.#store.commit(commit)).kind === "committed";
    }
    const { keyCheck, conversationCheck, host } = this.#birth;
    const made = await this.#store.create({ keyCheck, conversationCheck, host, name, first: contents });
    // Another host's stream was never born here: callers that wait look again once this host has given up.
    if (made.kind !== "committed") return false;
    this.#birth = undefined;
    this.#born.resolve();
    return true;
  }

  /** This host commits nothing any more. */
  giveUp(): void {
    this.#born.resolve();
  }
}
