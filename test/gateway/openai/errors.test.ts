/**
 * Errors in OpenAI's shape, and whether a client does right when it decides by status and type.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "../../../src/protocol/message.ts";
import {
  errorBody,
  errorHeaders,
  failureError,
  type GatewayError,
  invalidRequest,
  modelList,
  modelObject,
  toGatewayError,
} from "../../../src/gateway/openai/index.ts";
import { WIRE_CODES, HoldfastError } from "../../../src/protocol/errors.ts";
import { FailureKind, FailureSchema } from "../../../src/protocol/messages.ts";

const kinds: readonly FailureKind[] = Object.values(FailureKind);
const failure = (kind: FailureKind, retryAfterMs?: number) =>
  failureError(
    create(FailureSchema, { kind, message: "why", ...(retryAfterMs === undefined ? {} : { retryAfterMs }) }),
  );

/** As the OpenAI SDK and the AI SDK decide. */
function isRetriedByClients({ status }: GatewayError): boolean {
  return status === 408 || status === 409 || status === 429 || status >= 500;
}

test("a status that clients retry is given if and only if a retry can help", () => {
  const all = [
    ...kinds.map((kind) => failure(kind)),
    ...WIRE_CODES.map((code) => toGatewayError(new HoldfastError(code, "why"))),
  ];
  for (const error of [...all, toGatewayError(new Error("x")), invalidRequest("model", "no")]) {
    assert.equal(isRetriedByClients(error), error.isRetryable, `${error.status} ${error.type}`);
    assert.equal(error.type === "server_error", error.status >= 500, `${error.status} ${error.type}`);
    assert.equal(errorHeaders(error)["x-should-retry"], String(error.isRetryable));
  }
});

const REAL_STATUSES = [
  [FailureKind.MODEL_UNAVAILABLE, 408, "timeout_error"],
  [FailureKind.RATE_LIMITED, 429, "rate_limit_error"],
  [FailureKind.RATE_LIMITED, 402, "invalid_request_error"],
  [FailureKind.MODEL_UNAVAILABLE, 500, "server_error"],
  [FailureKind.MODEL_UNAVAILABLE, 502, "server_error"],
  [FailureKind.MODEL_UNAVAILABLE, 503, "server_error"],
  [FailureKind.MODEL_UNAVAILABLE, 529, "server_error"],
  [FailureKind.INVALID_REQUEST, 422, "invalid_request_error"],
  [FailureKind.CONTEXT_TOO_LONG, 413, "invalid_request_error"],
] as const;

test("a provider's status is passed on where it says what the failure is, with the type that goes with it", () => {
  for (const [kind, providerStatus, type] of REAL_STATUSES) {
    const error = failureError(create(FailureSchema, { kind, message: "why", providerStatus }));
    assert.deepEqual([error.status, error.type], [providerStatus, type]);
  }
});

test("whatever a provider answers, the status is one that clients retry if and only if a retry can help", () => {
  for (const kind of kinds) {
    for (let providerStatus = 0; providerStatus <= 700; providerStatus++) {
      const error = failureError(create(FailureSchema, { kind, message: "why", providerStatus }));
      assert.equal(isRetriedByClients(error), error.isRetryable, `${kind} ${providerStatus}`);
      assert.equal(error.type === "server_error", error.status >= 500, `${kind} ${providerStatus}`);
      assert.ok(error.status >= 400 && error.status < 600, `${kind} ${providerStatus}`);
    }
  }
});

test("failures have OpenAI's names", () => {
  const shape = (kind: FailureKind) => {
    const { status, type, code, param } = failure(kind);
    return [status, type, code, param];
  };
  assert.deepEqual(shape(FailureKind.RATE_LIMITED), [429, "rate_limit_error", "rate_limit_exceeded", null]);
  assert.deepEqual(shape(FailureKind.CONTEXT_TOO_LONG), [
    400,
    "invalid_request_error",
    "context_length_exceeded",
    "messages",
  ]);
  assert.deepEqual(shape(FailureKind.MODEL_NOT_FOUND), [
    404,
    "invalid_request_error",
    "model_not_found",
    "model",
  ]);
  assert.deepEqual(shape(FailureKind.MODEL_UNAUTHENTICATED), [
    424,
    "upstream_error",
    "upstream_unauthenticated",
    null,
  ]);
  assert.equal(failureError(undefined).status, 500);
  assert.equal(failureError(create(FailureSchema, { kind: FailureKind.INTERNAL })).message.length > 0, true);
});

test("a failure of a kind that a newer server knows is the server's", () => {
  const strange = create(FailureSchema, { message: "why" });
  Object.assign(strange, { kind: 999 });
  assert.equal(failureError(strange).status, 500);
});

test("waiting times are told in seconds, rounded up, and in milliseconds", () => {
  const headers = errorHeaders(failure(FailureKind.RATE_LIMITED, 1200));
  assert.equal(headers["retry-after"], "2");
  assert.equal(headers["retry-after-ms"], "1200");
  assert.equal(errorHeaders(failure(FailureKind.RATE_LIMITED))["retry-after"], undefined);
  const overloaded = new HoldfastError("overloaded", "wait", { retryAfterMs: 10 });
  assert.equal(errorHeaders(toGatewayError(overloaded))["retry-after"], "1");
});

test("the body has every field, and the words of what nobody foresaw stay inside", () => {
  assert.deepEqual(errorBody(invalidRequest("n", "n must be 1")), {
    error: { message: "n must be 1", type: "invalid_request_error", param: "n", code: null },
  });
  const body = JSON.stringify(errorBody(toGatewayError(new Error("secret of the house"))));
  assert.equal(body.includes("secret"), false);
  const known = invalidRequest("n", "n must be 1");
  assert.equal(toGatewayError(known), known);
});

test("models are listed in OpenAI's shape", () => {
  const info = { id: "rehearsal/rehearsal", provider: "rehearsal", contextTokensMax: 1000 };
  const object = {
    id: "rehearsal/rehearsal",
    object: "model",
    created: 5,
    owned_by: "rehearsal",
    context_length: 1000,
  };
  assert.deepEqual(modelObject(info, 5), object);
  assert.deepEqual(modelList([info], 5), { object: "list", data: [object] });
  assert.deepEqual(Object.keys(modelObject({ id: "a", provider: "b", contextTokensMax: undefined }, 5)), [
    "id",
    "object",
    "created",
    "owned_by",
  ]);
});
