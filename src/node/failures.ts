/** Errors for the user who starts a server or runs a command: one line that says what to do about it. */
import { HoldfastError } from "../protocol/errors.ts";

/** The caller can put it right by other options, flags or configuration. */
export function usageError(message: string): HoldfastError {
  return new HoldfastError("invalid_argument", message);
}

/** What was asked for was fine, the world is not. */
export function failure(message: string, cause?: unknown): HoldfastError {
  return new HoldfastError("unavailable", message, { cause });
}

/** The system's code of an error (`EADDRINUSE`), wherever in the chain of causes it is. */
export function systemCode(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  if ("code" in error && typeof error.code === "string" && /^E[A-Z0-9]+$/.test(error.code)) return error.code;
  return systemCode(error.cause);
}
