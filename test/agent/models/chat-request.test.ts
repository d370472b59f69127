/**
 * Requests for chat completions are sent past the SDK, which writes their bodies: they are its own requests all the same.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { OpenAICompatibleChatLanguageModel } from "@ai-sdk/openai-compatible";
import { APICallError, type LanguageModelV4, type LanguageModelV4CallOptions } from "@ai-sdk/provider";
import { chatBody } from "../../../src/agent/models/chat-body.ts";
import { loadModel } from "../../../src/agent/models/load-model.ts";
import type { Fetch } from "../../../src/agent/models/providers.ts";
import { TAKEN } from "../../../src/agent/models/upstream/given-events.ts";

const URL_OF_CHATS = "http://127.0.0.1:1/v1/chat/completions";
const OWN = { "X-Own": " two  words ", "user-agent": "somebody" };
const OPTIONS: LanguageModelV4CallOptions = {
  prompt: [
    { role: "system", content: "Be brief." },
    { role: "user", content: [{ type: "text", text: "Where is north?" }] },
  ],
  tools: [{ type: "function", name: "look", inputSchema: { type: "object" } }],
  maxOutputTokens: 7,
  temperature: 0.5,
  providerOptions: { compatible: { min_p: 0.05 } },
};

/** What one call sends, and how it ends. */
async function asked(
  make: (fetch: Fetch) => Promise<Pick<LanguageModelV4, "doStream">>,
  answer: () => Promise<Response>,
): Promise<{ readonly sent: readonly unknown[]; readonly error: unknown }> {
  const sent: unknown[] = [];
  const model = await make((input, { method, headers, body } = {}) => {
    sent.push([input, method, headers, body]);
    return answer();
  });
  const abortSignal = new AbortController().signal;
  const error: unknown = await model.doStream({ ...OPTIONS, abortSignal }).then(
    () => assert.fail("there is no answer"),
    (thrown: unknown) => thrown,
  );
  return { sent, error };
}

const here = (fetch: Fetch): Promise<Pick<LanguageModelV4, "doStream">> => {
  const provider = { dialect: "openai-compatible", keyVariables: ["KEY"], headers: OWN } as const;
  return loadModel({ ...provider, baseURL: "http://127.0.0.1:1/v1/" }, "m", "secret", fetch);
};

const inSdk = (fetch: Fetch): Promise<LanguageModelV4> =>
  Promise.resolve(
    new OpenAICompatibleChatLanguageModel("m", {
      provider: "compatible.chat",
      url: () => URL_OF_CHATS,
      headers: () => ({ Authorization: "Bearer secret", ...OWN }),
      fetch,
      includeUsage: true,
      supportsStructuredOutputs: true,
      transformRequestBody: chatBody,
    }),
  );

const factsOf = (error: unknown): unknown => {
  if (!APICallError.isInstance(error)) return error;
  const { message, url, requestBodyValues, statusCode, responseHeaders, responseBody } = error;
  const { data, isRetryable, cause } = error;
  return {
    message,
    url,
    requestBodyValues,
    statusCode,
    responseHeaders,
    responseBody,
    data,
    isRetryable,
    cause,
  };
};

const refusal = (): Promise<Response> =>
  Promise.resolve(
    new Response('{"error":{"message":"slowly","code":"busy"}}', {
      status: 429,
      headers: { "retry-after": "7" },
    }),
  );
const lost = new TypeError("fetch failed", {
  cause: Object.assign(new Error("gone"), { code: "ECONNREFUSED" }),
});

test("a request has the headers and the bytes that the SDK would send, and is sent once", async () => {
  const [ours, theirs] = [await asked(here, refusal), await asked(inSdk, refusal)];
  assert.deepEqual(ours.sent, theirs.sent);
  assert.equal(ours.sent.length, 1);
});

test("a refusal and a lost connection are errors of the SDK's", async () => {
  for (const answer of [refusal, () => Promise.reject(lost)]) {
    const [ours, theirs] = [await asked(here, answer), await asked(inSdk, answer)];
    assert.ok(APICallError.isInstance(ours.error));
    assert.deepEqual(factsOf(ours.error), factsOf(theirs.error));
    assert.equal(ours.sent.length, 1);
  }
});

test("an answer that is read by its events is left to its reader", async () => {
  assert.equal((await asked(here, () => Promise.reject(TAKEN))).error, TAKEN);
});
