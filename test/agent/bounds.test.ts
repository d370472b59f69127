/** What is too large or too much, from a model or a client, ends in words, not in a turn that hangs. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createAgent, type Model, type ModelPart } from "../../src/agent/index.ts";
import { FailureKind, TurnEndReason } from "../../src/protocol/messages.ts";
import { KeepingClient, shellDone } from "./keeping-client.ts";
import { ScriptedModel } from "./scripted-model.ts";
import { TurnHost } from "./turn-host.ts";
import { endOf, kindsOf, textOf } from "./told.ts";

test("F1: a turn with many large results is kept as a whole", { timeout: 20_000 }, async () => {
  const steps = Array.from({ length: 100 }, (_, at) => [{ tool: "shell", args: { command: `c${at}`, description: "d".repeat(50_000) } }]);
  const model = ScriptedModel.steps(...steps, ["done"]);
  const host = new TurnHost();
  const client = new KeepingClient(host);
  client.carryOut = ({ execId }) => shellDone(execId + "x".repeat(39_000));
  client.ask("Go");
  await host.finish(createAgent({ models: model.models }));
  assert.equal(endOf(host.messages).reason, TurnEndReason.COMPLETED);
  assert.equal(client.checkpoint?.turns.length, 1);
});

test("F2: output of a command that comes faster than it can be logged is passed on all the same", { timeout: 20_000 }, async () => {
  const model = ScriptedModel.steps([{ tool: "shell", args: { command: "yes" } }], ["done"]);
  const host = new TurnHost();
  const client = new KeepingClient(host);
  client.carryOut = ({ id, execId, toolCallId }) => {
    for (let at = 0; at < 20; at++) {
      const output = { case: "stdout" as const, value: new Uint8Array(400_000).fill(65 + at) };
      const message = { case: "shellStreamResult" as const, value: { result: { case: "output" as const, value: { output } } } };
      host.say({ case: "execClientMessage", value: { id, execId, toolCallId, message } });
    }
    return shellDone("");
  };
  client.ask("Go");
  await host.finish(createAgent({ models: model.models }));
  assert.equal(endOf(host.messages).reason, TurnEndReason.COMPLETED);
  const relayed = host.messages.flatMap(({ message }) =>
    message.case === "interactionUpdate" && message.value.message.case === "shellOutputDelta" ? [message.value.message.value.output.value?.length ?? 0] : []);
  assert.equal(relayed.reduce((a, b) => a + b, 0), 8_000_000);
});

test("F2: a model that says much at once", { timeout: 20_000 }, async () => {
  const text = "word ".repeat(2_000_000);
  const model = new ScriptedModel(() => ["x"]);
  model.call = async function* (): AsyncGenerator<ModelPart> {
    yield { kind: "text", text };
    yield { kind: "finish", reason: "stop", usage: { inputTokens: 1, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 } };
  };
  const host = new TurnHost();
  const client = new KeepingClient(host);
  client.ask("Go");
  await host.finish(createAgent({ models: model.models }));
  assert.equal(endOf(host.messages).reason, TurnEndReason.COMPLETED);
  assert.equal(textOf(host.messages), text);
});
test("E8: message too long", { timeout: 20_000 }, async () => {
  const host = new TurnHost();
  const client = new KeepingClient(host);
  client.ask("x".repeat(300_000));
  await host.finish(createAgent({ models: ScriptedModel.steps(["a"]).models }));
  assert.equal(endOf(host.messages).failure?.kind, FailureKind.INVALID_REQUEST);
});
test("E8: command, path, tool name too long", { timeout: 20_000 }, async () => {
  const model = ScriptedModel.steps([{ tool: "shell", args: { command: "x".repeat(300_000) } }], [{ tool: "read", args: { path: "x".repeat(300_000) } }], [{ tool: "x".repeat(300_000), args: {} }],
   [{ tool: "write", args: { path: "x".repeat(300_000), content: "" } }], ["done"]);
  const host = new TurnHost();
  const client = new KeepingClient(host);
  client.ask("Go");
  await host.finish(createAgent({ models: model.models }));
  assert.equal(endOf(host.messages).reason, TurnEndReason.COMPLETED);
});
test("F1: closed without a request", { timeout: 5_000 }, async () => {
  const host = new TurnHost();
  host.hear({ kind: "close", seqno: 0 });
  await host.finish(createAgent({ models: ScriptedModel.steps(["a"]).models }));
  assert.equal(endOf(host.messages).failure?.kind, FailureKind.INVALID_REQUEST);
});
test("usage", { timeout: 5_000 }, async () => {
  const model = new ScriptedModel(() => ["x"]);
  model.call = async function* (): AsyncGenerator<ModelPart> {
    yield { kind: "text", text: "a \ud83d" };
    yield { kind: "text", text: "\ude00 b \ud83d" };
    yield { kind: "finish", reason: "stop", usage: { inputTokens: -1.5, outputTokens: NaN, cacheReadTokens: 1e12, cacheWriteTokens: 0, reasoningTokens: 0 } };
  };
  const host = new TurnHost();
  const client = new KeepingClient(host);
  client.ask("Go");
  await host.finish(createAgent({ models: model.models }));
  assert.equal(endOf(host.messages).reason, TurnEndReason.COMPLETED);
  assert.equal(textOf(host.messages), "a \u{1f600} b \ufffd");
});
for (const answer of ["", "  "]) test("summary empty " + answer, { timeout: 5_000 }, async () => {
  const host = new TurnHost();
  const client = new KeepingClient(host);
  client.ask("Hi");
  await host.finish(createAgent({ models: ScriptedModel.steps(["hello"]).models }));
  const next = new TurnHost();
  const again = new KeepingClient(next, client.blobs);
  again.request({ conversationState: client.checkpoint!, action: { action: { case: "summarizeAction", value: {} } } });
  await next.finish(createAgent({ models: ScriptedModel.steps([answer]).models }));
  assert.equal(endOf(next.messages).reason, TurnEndReason.FAILED);
  assert.equal(again.checkpoint?.messages.length, 2);
});
