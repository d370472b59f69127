/**
 * What SQLite says went wrong, by its result code and never by its words.
 */
import { messageOf } from "../../protocol/errors.ts";

const FULL = 13;

/** The primary result code, undefined when the error is not SQLite's. */
export function sqliteCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !("errcode" in error)) return undefined;
  // The low byte is the primary code; the rest of an extended code says where it happened.
  return typeof error.errcode === "number" ? error.errcode & 0xff : undefined;
}

/** What a person can do about a failed write. */
export function writeFailure(error: unknown): string {
  if (sqliteCode(error) === FULL || isNoSpace(error)) {
    return "the disk is full; give it space: nothing that was acknowledged is lost";
  }
  const why = messageOf(error);
  // The extended code tells a failed write from a failed sync.
  const code = error instanceof Error && "errcode" in error ? `, SQLite code ${String(error.errcode)}` : "";
  return `the database could not be written (${why}${code}); look after the disk: nothing that was acknowledged is lost`;
}

function isNoSpace(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOSPC";
}
