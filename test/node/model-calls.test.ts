/** The gate before the model calls of a server that stops, and what it waits for. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Model, ModelCall, ModelPart } from "../../src/agent/model.ts";
import { ModelCalls } from "../../src/node/model-calls.ts";

const CALL: ModelCall = {
  system: "",
  messages: [],
  tools: [],
  options: undefined,
  conversationId: "",
  signal: new AbortController().signal,
  file: async () => new Uint8Array(),
};

test("a server that drains waits until the answer of its last call has reached its readers, not for a time", async () => {
  const said = Promise.withResolvers<void>();
  const model: Model = {
    id: "test/model",
    contextTokensMax: undefined,
    async *call(): AsyncGenerator<ModelPart> {
      await said.promise;
      yield { kind: "text", text: "Done." };
    },
  };
  const calls = new ModelCalls();
  const counted = calls.counted({ list: () => [], resolve: () => model }).resolve("");
  const under = Array.fromAsync(counted.call(CALL));
  let looks = 0;
  let isDrained = false;
  // As a disk that takes longer than readers are given behind it.
  const drained = calls.drain(60_000, () => ++looks < 20).then(() => (isDrained = true));
  assert.equal(isDrained, false);
  said.resolve();
  await under;
  assert.equal(isDrained, false, "the call has ended, and its answer has not");
  await drained;
  assert.equal(looks, 20);
});

test("a server that drains waits no longer than it was given", async () => {
  const model: Model = {
    id: "test/model",
    contextTokensMax: undefined,
    async *call({ signal }): AsyncGenerator<ModelPart> {
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      yield { kind: "text", text: "" };
    },
  };
  const calls = new ModelCalls();
  const stop = new AbortController();
  const counted = calls.counted({ list: () => [], resolve: () => model }).resolve("");
  const under = Array.fromAsync(counted.call({ ...CALL, signal: stop.signal }));
  await calls.drain(50, () => assert.fail("no call has ended"));
  stop.abort();
  await under;
});
