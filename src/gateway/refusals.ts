/** The refusals of the gateway itself, each with what to do about it. */
import { GatewayError, invalidRequest } from "./openai/index.ts";

export function noModel(name: string): GatewayError {
  const message = `There is no model "${name}". GET /v1/models lists those that there are.`;
  return new GatewayError({
    status: 404,
    type: "invalid_request_error",
    code: "model_not_found",
    param: "model",
    message,
  });
}

export function noResponse(id: string): GatewayError {
  const message = `Response with id ${JSON.stringify(id)} not found: it was deleted, or its time is over.`;
  return new GatewayError({
    status: 404,
    type: "invalid_request_error",
    code: "response_not_found",
    message,
  });
}

export function noConversation(id: string): GatewayError {
  const message = `Conversation with id ${JSON.stringify(id)} not found: it was deleted, or its time is over.`;
  return new GatewayError({
    status: 404,
    type: "invalid_request_error",
    code: "conversation_not_found",
    message,
  });
}

/** A status that clients try again behind. */
export function conversationBusy(): GatewayError {
  return new GatewayError({
    status: 409,
    type: "invalid_request_error",
    code: "conversation_locked",
    message: "Another response is under way in this conversation. Try again when it is over.",
    retryAfterMs: 1_000,
  });
}

export function conversationFull(): GatewayError {
  const message = "This conversation has as many items as one may have. Begin another one.";
  return new GatewayError({ status: 400, type: "invalid_request_error", code: "conversation_full", message });
}

/** Each door has its own way back to an answer. */
export function otherDoor(responseId: string): GatewayError {
  const message = `This answer is a response. Read it by GET /v1/responses/${responseId}?stream=true.`;
  return new GatewayError({ status: 409, type: "invalid_request_error", code: "other_door", message });
}

export function noMessages(): GatewayError {
  const message = "messages has nothing to answer: say something as the user.";
  return new GatewayError({ status: 400, type: "invalid_request_error", param: "messages", message });
}

export function tooManyOpen(): GatewayError {
  return new GatewayError({
    status: 429,
    type: "rate_limit_error",
    code: "open_streams_limit",
    message:
      "As many answers as there may be at once are under way for this API key's principal. Wait until one is over, or raise --open-streams.",
    retryAfterMs: 2_000,
  });
}

export function tooManyInBackground(max: number): GatewayError {
  return new GatewayError({
    status: 429,
    type: "rate_limit_error",
    code: "background_limit_exceeded",
    message: `This API key may have ${max} background responses under way. Wait until one is over, or cancel one.`,
    retryAfterMs: 10_000,
  });
}

/** Clients that read `x-should-retry` give up at once: hours are no pause. */
export function tokensUsed(tokensPerDay: number, retryAfterMs: number): GatewayError {
  return new GatewayError({
    status: 429,
    type: "rate_limit_error",
    code: "tokens_per_day_exceeded",
    message: `This API key has used its ${tokensPerDay} tokens of today (UTC). Try again after midnight UTC, or ask the server's operator for an API key with more (holdfast keys create --tokens-per-day). Answers that were given before can still be had again.`,
    retryAfterMs,
    isRetryable: false,
  });
}

/** The server that runs the models counts; this one would let everything through. */
export function tokensNotCounted(): GatewayError {
  return new GatewayError({
    status: 403,
    type: "permission_error",
    code: "tokens_not_counted",
    message:
      "This API key has a limit of tokens a day, and this gateway uses the streams of another server (--upstream-server), so it cannot count them. Set the limit at that server.",
  });
}

/** No status that clients retry: its own client has stopped it. */
export function answerStopped(): GatewayError {
  const message =
    "This request was stopped by its Idempotency-Key, and is not answered any more. Use a new one to ask again.";
  return new GatewayError({ status: 410, type: "aborted_error", code: "answer_stopped", message });
}

export function otherAnswer(): GatewayError {
  const message =
    "This Last-Event-ID is of another answer of the stream. Ask without it to get the latest answer from its beginning.";
  return new GatewayError({ status: 409, type: "invalid_request_error", code: "other_answer", message });
}

export function noKey(): GatewayError {
  return invalidRequest(
    "Idempotency-Key",
    "Say by the header Idempotency-Key which request's answer is to be stopped.",
  );
}
