/**
 * A stream that begins here: its name, unless the application has one, and its journal before anything is in it.
 *
 * Both are drawn at random, so no other client has the same.
 */
import { recover, type Recovered } from "../core/journal.ts";
import { hexOf } from "../protocol/bytes.ts";
import type { Environment } from "../transport/environment.ts";

export function newName(environment: Environment): string {
  return nameOf(environment.randomBytes(16));
}

export function nameOf(bytes: Uint8Array): string {
  return hexOf(bytes.subarray(0, 16));
}

export function newJournal(environment: Environment, takesOver: boolean): Recovered {
  const journalId = newName(environment);
  const opened = recover([{ kind: "opened", journalId, takesOver, createdMs: environment.now() }]);
  if (opened === undefined) throw new Error("an opened journal is there");
  return opened;
}
