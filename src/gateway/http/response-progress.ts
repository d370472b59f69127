/**
 * A response in progress: whether all of the answer was written, and which failure the client was given.
 *
 * Together with what the socket says this decides whether an identical request is a retry or a new question.
 */
import { GatewayError, toGatewayError } from "../openai/index.ts";
import { CallEnded } from "./http-call.ts";

export class ResponseProgress {
  /** The answer's last delta was written, also as a failure. */
  isComplete = false;
  readonly #onFailure: (error: GatewayError, cause: unknown) => void;

  constructor(onFailure: (error: GatewayError, cause: unknown) => void) {
    this.#onFailure = onFailure;
  }

  /** The error that the client is given. */
  failed(cause: unknown): GatewayError {
    const error = cause instanceof CallEnded ? cutByShutdown() : toGatewayError(cause);
    this.#onFailure(error, cause);
    return error;
  }
}

/** To a client whose answer was under way. */
function cutByShutdown(): GatewayError {
  return unavailable("shutting_down", `The server is shutting down. ${RETRY} when it runs again: ${KEPT}.`);
}

/** To a client whose request had not begun. */
export function shuttingDown(): GatewayError {
  return unavailable(
    "shutting_down",
    `The server is shutting down and has not begun this request. ${RETRY} when it runs again.`,
  );
}

/** Deltas that stop without an end. */
export function lostAnswer(): GatewayError {
  return unavailable("answer_interrupted", `The answer was interrupted. ${RETRY}: ${KEPT}.`);
}

const RETRY = "Send the same request again";
/** What a restart costs: nothing that was finished or is held, and one more generation of what is neither. */
const KEPT = "finished steps are kept, and a step that was cut off continues or is generated again";

function unavailable(code: string, message: string): GatewayError {
  return new GatewayError({ status: 503, type: "server_error", code, message, retryAfterMs: 1_000 });
}
