/**
 * What a gateway knows of the others on the same tables: which process lives. Sessions name their owner by it.
 *
 * It decides only whether a session is waited for or taken over. That no node writes what another one has is the versions' work: every write of a session's record compares the one that its
 * owner wrote last.
 */
import { HoldfastError } from "../protocol/errors.ts";

export interface Neighbours {
  /** This process, by a name that no other one has or had. */
  readonly self: string;
  /** False when that process is gone, or was not heard of for a lease. */
  isAlive(owner: string): Promise<boolean>;
  /** Calls back when a process is gone that lived before; returns what ends it. */
  onGone(listener: () => void): () => void;
}

/** Two nodes that meet are done by the second attempt; more are needed only by many. */
const ATTEMPTS_MAX = 8;

/** Does the work, and anew when another node was first: then it finds what that one left. */
export async function uncontested<Result>(work: () => Promise<Result>): Promise<Result> {
  for (let left = ATTEMPTS_MAX; ; left--) {
    try {
      return await work();
    } catch (cause) {
      if (HoldfastError.codeOf(cause) !== "fenced") throw cause;
      if (left === 0)
        throw new HoldfastError("unavailable", "other nodes change this conversation; retry", { cause });
    }
  }
}

/** Whether another process generates what this one names as its owner. */
export async function livesElsewhere(neighbours: Neighbours, owner: string | undefined): Promise<boolean> {
  return owner !== undefined && owner !== neighbours.self && (await neighbours.isAlive(owner));
}
