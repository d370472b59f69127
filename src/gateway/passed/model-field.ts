/**
 * Where a request's body names its model, found while the body comes.
 *
 * A request that is passed on goes to the provider of its model, under the provider's own name for it. So the body is read as far as that
 * field, and the rest is only looked through: a second field of that name could be the one that the provider reads, and would
 * get around what an API key may use.
 *
 * Invariant: a body that ends without an error has named its model exactly once.
 */
import { type GatewayError, invalidRequest } from "../openai/index.ts";

export interface ModelField {
  /** What the client calls it. */
  readonly name: string;
  /** Of the bytes to replace, counted from the body's beginning. */
  readonly from: number;
  readonly to: number;
}

export interface ModelFinder {
  readonly found: ModelField | undefined;
  /** The next piece of the body. Throws the error for the client. */
  push(piece: Uint8Array): void;
  /** The body is complete. Throws the error for the client. */
  end(): void;
  /** Another name in the field's place. */
  written(name: string): Uint8Array;
}

/** More than any model is called. */
export const NAME_CHARS_MAX = 512;

export function twoModels(): GatewayError {
  return invalidRequest("model", "The request names its model twice. Name it once, as model.");
}

export function noModelNamed(): GatewayError {
  return invalidRequest("model", "model must be given, as a string of at most 512 characters.");
}

export function malformed(what: string): GatewayError {
  return invalidRequest("body", `The request's body ${what}.`, "invalid_body");
}
