/**
 * What became of telling an answer: whether all of it was written down, and which failure was told.
 *
 * Together with what the socket says this decides whether an identical request is a retry or a new question.
 */
import { GatewayError, toGatewayError } from "../openai/index.ts";
import { CallEnded } from "./http-call.ts";

export class Telling {
  /** The answer's last delta was written down, also as a failure. */
  isTold = false;
  readonly #onFailure: (error: GatewayError, cause: unknown) => void;

  constructor(onFailure: (error: GatewayError, cause: unknown) => void) {
    this.#onFailure = onFailure;
  }

  /** As the client is told of it. */
  failed(cause: unknown): GatewayError {
    const error = cause instanceof CallEnded ? shuttingDown() : toGatewayError(cause);
    this.#onFailure(error, cause);
    return error;
  }
}

export function shuttingDown(): GatewayError {
  return new GatewayError({
    status: 503,
    type: "server_error",
    code: "shutting_down",
    message: "The server is shutting down. Send the request again in a moment: its answer is kept.",
    retryAfterMs: 1_000,
  });
}

/** Deltas that stop without an end. */
export function lostAnswer(): GatewayError {
  return new GatewayError({
    status: 503,
    type: "server_error",
    code: "answer_interrupted",
    message: "The answer was interrupted. Send the request again: it goes on where it was.",
    retryAfterMs: 1_000,
  });
}
