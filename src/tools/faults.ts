/**
 * Why a tool could not do what it was asked, and which outcome of an exec that is.
 *
 * A fault is an error with a system code, as Node's own are, so one table tells permission_denied,
 * not_found and error apart, whichever part noticed it. Messages name the path that was asked for, never the
 * descriptor through which it was reached.
 */
import { getSystemErrorMessage } from "node:util";
import { HoldfastError, messageOf } from "../protocol/errors.ts";

interface FaultDetails {
  readonly path?: string;
  /** With ETIMEDOUT. */
  readonly timeoutMs?: number;
}

/** Codes are the system's names: EACCES for what leads outside, ESTALE for a file that changed meanwhile. */
export function fault(code: string, message: string, details: FaultDetails = {}): Error {
  return Object.assign(new Error(message), { code, ...details });
}

export type Failure =
  | { readonly case: "error"; readonly value: { message: string; systemCode: string } }
  | { readonly case: "permissionDenied"; readonly value: { message: string; path: string } }
  | { readonly case: "notFound"; readonly value: { message: string; path: string } }
  | { readonly case: "timeout"; readonly value: { timeoutMs: number } }
  | { readonly case: "aborted"; readonly value: { detail: string } }
  | { readonly case: "unknown"; readonly value: { detail: string } };

const NOT_FOUND: ReadonlySet<string> = new Set(["ENOENT", "ENOTDIR"]);
const DENIED: ReadonlySet<string> = new Set(["EACCES", "EPERM", "EROFS", "ELOOP"]);

/** `path` is what was asked for; errors of the system know only how we got there. */
export function failureOf(cause: unknown, path: string): Failure {
  const code = codeOf(cause);
  const message = wordsOf(cause, path);
  if (code === "ABORT_ERR") return { case: "aborted", value: { detail: "stopped before it was done" } };
  if (code === "ETIMEDOUT") return { case: "timeout", value: { timeoutMs: numberOf(cause, "timeoutMs") } };
  // The process that was asked went away before it answered: it may have done it (C1).
  if (code === "ECONNRESET") return { case: "unknown", value: { detail: message } };
  if (NOT_FOUND.has(code)) return { case: "notFound", value: { message, path } };
  if (DENIED.has(code)) return { case: "permissionDenied", value: { message, path } };
  return { case: "error", value: { message, systemCode: code } };
}

/** Empty when the error has none. A HoldfastError's code is no system's. */
export function codeOf(cause: unknown): string {
  if (!(cause instanceof Error) || cause instanceof HoldfastError) return "";
  if (cause.name === "AbortError") return "ABORT_ERR";
  return "code" in cause && typeof cause.code === "string" ? cause.code : "";
}

function wordsOf(cause: unknown, path: string): string {
  const errno = numberOf(cause, "errno");
  // libuv's numbers are negative; only errors of the system have one.
  if (errno < 0) return `${path === "" ? "." : path}: ${getSystemErrorMessage(errno) ?? codeOf(cause)}`;
  return messageOf(cause);
}

function numberOf(cause: unknown, field: "errno" | "timeoutMs"): number {
  if (!(cause instanceof Error)) return 0;
  const value: unknown = Reflect.get(cause, field);
  return typeof value === "number" ? value : 0;
}

/** For loops and steps between awaits. */
export function throwIfAborted(signal: AbortSignal): void {
  if (signal.aborted) throw fault("ABORT_ERR", "stopped");
}
