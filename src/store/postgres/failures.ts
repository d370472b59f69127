/**
 * What an error of the driver means for what was sent: nothing happened, or nothing is known.
 *
 * The server's own answers carry a code (SQLSTATE), and a transaction that got one was undone. An error without a code is the connection's: whatever
 * was under way may have happened.
 */
import { HoldfastError } from "../../protocol/errors.ts";

export type Meaning =
  /** The connection is gone, or the server ends it: what was sent may have happened. */
  | "lost"
  /** It was undone for the sake of another transaction: the same again may succeed. */
  | "again"
  /** It was undone because the server cannot store anything now. */
  | "full"
  /** It was undone because of what it asked for. */
  | "refused";

/** Classes and codes of PostgreSQL's error table. 22012, a division by zero, is the receipt's: a store that slept for days finds that it was tidied away, and needs another one. */
const LOST = /^(?:08|57P0|25006|22012)/;
const AGAIN = /^(?:40|55P03|57014)/;
const FULL = /^(?:53|58|XX)/;

export function meaningOf(error: unknown): Meaning {
  const code = sqlState(error);
  if (code === undefined || LOST.test(code)) return "lost";
  if (AGAIN.test(code)) return "again";
  return FULL.test(code) ? "full" : "refused";
}

export function sqlState(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error)) return undefined;
  const { code } = error;
  return typeof code === "string" && /^[0-9A-Z]{5}$/.test(code) && code !== "EPIPE" ? code : undefined;
}

/** For callers: what the server said may hold values, so only its code and its own words without detail are repeated (E4). */
export function unavailable(what: string, cause?: unknown): HoldfastError {
  const code = sqlState(cause);
  const said = cause instanceof Error && code === undefined ? `: ${cause.message}` : "";
  return new HoldfastError("unavailable", `${what}${code === undefined ? said : ` (SQLSTATE ${code})`}`, {
    cause,
  });
}
