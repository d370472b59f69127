/**
 * Names that an application gives: of streams and of conversations. They travel in frames and headers, so the rule is the
 * protocol's; to break it is a mistake of the caller, found before anything is sent.
 */
import { HoldfastError } from "../protocol/errors.ts";
import { nameObjection } from "../protocol/frame-check.ts";
import { LIMITS } from "../protocol/limits.ts";

export function checkOwnName(name: string, what: string): void {
  const objection = nameObjection(name, LIMITS.idempotencyKeyBytesMax, what, true);
  if (objection !== undefined) throw new HoldfastError("invalid_argument", objection);
}
