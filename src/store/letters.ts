/**
 * Letters from one node to another, through the store that they share: what a client says to a node that does not run its stream.
 *
 * A letter may arrive twice, late, or never: its sender looks at the stream, and posts it again while it is not covered. What
 * it says is a frame of the stream's client, sealed under the stream key, and the rules of the stream make a second copy harmless (A2, D1, D3).
 * The host removes a letter with the commit that deals with it (`Commit.letters`).
 *
 * A hint says that something may have changed. Hints may be lost as well: they save waiting, and nothing depends on them.
 */
import type { StreamName } from "../core/stream-state.ts";

export interface NewLetter {
  /** The node that runs the stream. */
  readonly to: string;
  readonly name: StreamName;
  /** As the sender has seen it: a host that has lost the stream can tell. */
  readonly hostEpoch: number;
  readonly sealed: Uint8Array;
}

export interface Letter extends Omit<NewLetter, "to"> {
  readonly number: number;
}

/** What another node has just done. */
export interface Hint {
  /** The stream may have changed. */
  has(name: StreamName): boolean;
  /** There may be letters for this node. */
  isFor(hostId: string): boolean;
}

export interface Letters {
  /** Letters of one sender keep their order. */
  post(letter: NewLetter): Promise<void>;
  /** All letters for a node, oldest first, up to `countMax`. */
  read(to: string, countMax: number): Promise<readonly Letter[]>;
  /** Removes letters that no commit deals with. */
  discard(numbers: readonly number[]): Promise<void>;
  /** Returns how to stop listening. Where there are no hints it is never called. */
  listen(hear: (hint: Hint) => void): () => void;
}
