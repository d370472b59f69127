/** What is too large or too much, from a model or a client, ends in words, never in a turn that hangs. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createAgent, type ModelPart, type Usage } from "../../src/agent/index.ts";
import { type AgentServerMessage, FailureKind, TurnEndReason } from "../../src/protocol/messages.ts";
import { KeepingClient, shellDone, writeDone } from "./keeping-client.ts";
import { type Said, ScriptedModel } from "./scripted-model.ts";
import { endOf, kindsOf, textOf } from "./told.ts";
import { TurnHost } from "./turn-host.ts";

function hosted(model: ScriptedModel) {
  const host = new TurnHost();
  const client = new KeepingClient(host);
  client.carryOut = () => shellDone("ok");
  const end = (): Promise<void> => host.finish(createAgent({ models: model.models, cacheBytesMax: 0 }));
  return { host, client, finish: end };
}

/** Says exactly these parts. */
function literal(parts: readonly ModelPart[]): ScriptedModel {
  const model = new ScriptedModel(() => []);
  model.call = async function* call() {
    yield* parts;
  };
  return model;
}

const finish = (usage: Partial<Usage> = {}): ModelPart => ({
  kind: "finish",
  reason: "stop",
  usage: {
    inputTokens: 1,
    outputTokens: 1,
    cacheReadTokens: 0,
    cacheWriteTokens: 0,
    reasoningTokens: 0,
    ...usage,
  },
});

const outputIn = (messages: readonly AgentServerMessage[]): number =>
  messages
    .map(({ message }) => (message.case === "interactionUpdate" ? message.value.message : undefined))
    .reduce(
      (bytes, update) =>
        bytes + (update?.case === "shellOutputDelta" ? (update.value.output.value?.length ?? 0) : 0),
      0,
    );

test("F1: a turn with more large results than may wait for the disk is kept as a whole", async () => {
  const steps = Array.from({ length: 60 }, (_, at): readonly Said[] => [
    { tool: "shell", args: { command: `${at}`, description: "d".repeat(50_000) } },
  ]);
  const { host, client, finish: end } = hosted(ScriptedModel.steps(...steps, ["done"]));
  client.carryOut = ({ execId }) => shellDone(execId + "x".repeat(39_000));
  client.ask("Go");
  await end();
  assert.equal(endOf(host.messages).reason, TurnEndReason.COMPLETED);
  assert.equal(client.checkpoint?.turns.length, 1);
});

test("F1, F2: a step with more calls at once than may wait for the disk, by what they ask or by what they give, goes on", async () => {
  const asking = Array.from({ length: 110 }, (_, at): Said => ({
    tool: "write",
    args: { path: `${at}`, content: "x".repeat(50_000) },
  }));
  const giving = Array.from({ length: 150 }, (_, at): Said => ({
    tool: "shell",
    args: { command: `${at}` },
  }));
  for (const calls of [asking, giving]) {
    const { host, client, finish: end } = hosted(ScriptedModel.steps(calls, ["done"]));
    client.carryOut = ({ message, execId }) =>
      message.case === "writeArgs" ? writeDone(50_000) : shellDone(execId + "x".repeat(39_000));
    client.ask("Go");
    await end();
    assert.equal(endOf(host.messages).reason, TurnEndReason.COMPLETED);
    assert.equal(textOf(host.messages), "done");
    assert.equal(client.effects.size, calls.length);
    const numbers = client.carriedOut.map(({ id }) => id);
    assert.deepEqual(
      numbers,
      [...calls.keys()].map((at) => at + 1),
    );
  }
});

test("F2: output that many running tools say at once, more than may wait for the disk, is passed on", async () => {
  const calls = Array.from({ length: 120 }, (_, at): Said => ({ tool: "shell", args: { command: `${at}` } }));
  const { host, client, finish: end } = hosted(ScriptedModel.steps(calls, ["done"]));
  let asked = 0;
  client.carryOut = () => {
    if (++asked < calls.length) return undefined;
    for (const { id, execId, toolCallId } of client.carriedOut) {
      const output = { case: "stdout", value: new Uint8Array(60_000) } as const;
      const results = [
        { case: "output", value: { output } },
        { case: "success", value: { exitCode: 0 } },
      ] as const;
      for (const result of results) {
        const message = { case: "shellStreamResult", value: { result } } as const;
        host.say({ case: "execClientMessage", value: { id, execId, toolCallId, message } });
      }
    }
    return undefined;
  };
  client.ask("Go");
  await end();
  assert.equal(endOf(host.messages).reason, TurnEndReason.COMPLETED);
  assert.equal(outputIn(host.messages), 120 * 60_000);
});

test("F2: output that comes faster than it can be logged, in pieces larger than an event, is passed on", async () => {
  const model = ScriptedModel.steps([{ tool: "shell", args: { command: "yes" } }], ["done"]);
  const { host, client, finish: end } = hosted(model);
  client.carryOut = ({ id, execId, toolCallId }) => {
    for (let at = 0; at < 20; at++) {
      const output = { case: "stdout", value: new Uint8Array(400_000).fill(65 + at) } as const;
      const result = { case: "output", value: { output } } as const;
      const message = { case: "shellStreamResult", value: { result } } as const;
      host.say({ case: "execClientMessage", value: { id, execId, toolCallId, message } });
    }
    return shellDone("");
  };
  client.ask("Go");
  await end();
  assert.equal(endOf(host.messages).reason, TurnEndReason.COMPLETED);
  assert.equal(outputIn(host.messages), 8_000_000);
});

test("F2: a model that says much at once is told in pieces; one that never stops is stopped", async () => {
  const text = "word ".repeat(1_200_000);
  const long = hosted(literal([{ kind: "text", text }, finish()]));
  long.client.ask("Go");
  await long.finish();
  assert.equal(endOf(long.host.messages).reason, TurnEndReason.COMPLETED);
  assert.equal(textOf(long.host.messages).length, text.length);
  const endless = hosted(literal([text, text, text].map((part) => ({ kind: "text", text: part }))));
  endless.client.ask("Go");
  await endless.finish();
  assert.equal(endOf(endless.host.messages).failure?.kind, FailureKind.TOKEN_LIMIT);
});

test("F2: a model that never stops to write a call's arguments is stopped", async () => {
  const args = "x".repeat(6_000_000);
  const part = { kind: "tool_call_delta", toolCallId: "1", tool: "shell", args } as const;
  const { host, client, finish: finished } = hosted(literal([part, part, part, finish()]));
  client.ask("Go");
  await finished();
  assert.equal(endOf(host.messages).failure?.kind, FailureKind.TOKEN_LIMIT);
});

test("E8: a message that fits no event is refused; what is attached to it is put beside the stream", async () => {
  const long = hosted(ScriptedModel.steps(["never"]));
  long.client.ask("x".repeat(300_000));
  await long.finish();
  assert.equal(endOf(long.host.messages).failure?.kind, FailureKind.INVALID_REQUEST);
  const model = ScriptedModel.steps(["seen"]);
  const { host, client, finish: end } = hosted(model);
  const content = { content: { case: "inline", value: new Uint8Array(300_000) } } as const;
  const userMessage = { text: "Look", attachments: [{ mediaType: "image/png", content }] };
  client.request({ action: { action: { case: "userMessageAction", value: { userMessage } } } });
  await end();
  assert.equal(textOf(host.messages), "seen");
  const [asked] = model.calls[0]?.messages[0]?.content ?? [];
  assert.ok(asked?.type === "file" && asked.blobId !== undefined);
  assert.equal((await model.calls[0]?.file(asked.blobId))?.length, 300_000);
});

test("E8: a call whose names or arguments fit no event is told to the model", async () => {
  const long = "x".repeat(300_000);
  const model = ScriptedModel.steps(
    [{ tool: "shell", args: { command: long } }],
    [{ tool: "write", args: { path: long, content: "" } }],
    [{ tool: long, args: {}, id: long }],
    ["done"],
  );
  const { host, client, finish: end } = hosted(model);
  client.ask("Go");
  await end();
  assert.equal(textOf(host.messages), "done");
  assert.equal(client.effects.size, 0);
});

test("E8: of more calls at once than a client can answer the rest is refused", async () => {
  const calls = Array.from({ length: 300 }, (_, at): Said => ({ tool: "shell", args: { command: `${at}` } }));
  const { host, client, finish: end } = hosted(ScriptedModel.steps(calls, ["done"]));
  client.ask("Go");
  await end();
  assert.equal(textOf(host.messages), "done");
  assert.equal(client.effects.size, 256);
});

test("F1: a client that closes without a request has had its turn", async () => {
  const { host, finish: end } = hosted(ScriptedModel.steps(["never"]));
  host.hear({ kind: "close", seqno: 0 });
  await end();
  assert.equal(endOf(host.messages).failure?.kind, FailureKind.INVALID_REQUEST);
});

test("a character in two halves is told whole, half of one never; tokens are whole numbers", async () => {
  const model = literal([
    { kind: "text", text: "a \ud83d" },
    { kind: "text", text: "\ude00 b \ud83d" },
    finish({ inputTokens: -1.5, outputTokens: NaN, cacheReadTokens: 1e12 }),
  ]);
  const { host, client, finish: end } = hosted(model);
  client.ask("Go");
  await end();
  assert.equal(textOf(host.messages), "a \u{1f600} b ");
  const { inputTokens, outputTokens, cacheReadTokens } = endOf(host.messages);
  assert.deepEqual([inputTokens, outputTokens, cacheReadTokens], [0, 0, 0xffff_ffff]);
});

test("G1: of an answer that is cancelled within a character the message is what was said", async () => {
  const model = new ScriptedModel(() => []);
  model.call = async function* call({ signal }) {
    const stopped = new Promise((resolve) => signal.addEventListener("abort", resolve));
    yield { kind: "text", text: "calm \ud83d" };
    await stopped;
    signal.throwIfAborted();
  };
  const { host, client, finish: end } = hosted(model);
  const { onEvent } = host;
  host.onEvent = (event, eventId) => {
    onEvent(event, eventId);
    const { message } = event;
    if (message.case !== "interactionUpdate" || message.value.message.case !== "textDelta") return;
    const action = { case: "cancelAction", value: {} } as const;
    host.say({ case: "conversationAction", value: { action } });
  };
  client.ask("Go");
  await end();
  assert.equal(textOf(host.messages), "calm ");
  const kept = [...client.blobs.values()].map((blob) => Buffer.from(blob).toString());
  assert.equal(kept.filter((text) => text.includes('"calm "')).length, 1);
});

test("an answer that is no summary leaves the conversation as it was", async () => {
  for (const [said, reason] of [
    [" ", undefined],
    ["We talk", "length"],
  ] as const) {
    const before = hosted(ScriptedModel.steps(["hello"]));
    before.client.ask("Hi");
    await before.finish();
    const model = ScriptedModel.steps([said]);
    model.finish = reason;
    const host = new TurnHost();
    const client = new KeepingClient(host, before.client.blobs);
    const conversationState = before.client.checkpoint;
    client.request({ conversationState, action: { action: { case: "summarizeAction", value: {} } } });
    await host.finish(createAgent({ models: model.models }));
    assert.equal(endOf(host.messages).failure?.kind, FailureKind.NO_PROGRESS);
    assert.deepEqual(client.checkpoint?.messages, conversationState?.messages);
  }
});

test("what is said during a summary follows it, and is answered", async () => {
  const before = hosted(ScriptedModel.steps(["hello"]));
  before.client.ask("Hi");
  await before.finish();
  const host = new TurnHost();
  const client = new KeepingClient(host, before.client.blobs);
  const model = new ScriptedModel(
    (_, count) =>
      [["We talked."], [{ tool: "shell", args: { command: "date" } }], ["Sure."]][count - 1] ?? [],
  );
  client.carryOut = () => shellDone("ok");
  client.request({
    conversationState: before.client.checkpoint,
    action: { action: { case: "summarizeAction", value: {} } },
  });
  const value = { userMessage: { text: "And the date?" } };
  host.say({ case: "conversationAction", value: { action: { case: "userMessageAction", value } } });
  await host.finish(createAgent({ models: model.models }));
  const kinds = kindsOf(host.messages);
  assert.ok(kinds.indexOf("summary") < kinds.indexOf("userMessageAppended"));
  const texts = (client.checkpoint?.messages ?? []).map((id) =>
    Buffer.from(client.blobs.get(Buffer.from(id).toString("hex")) ?? []).toString(),
  );
  assert.equal(texts.length, 5);
  assert.match(texts[0] ?? "", /summary.*We talked\./u);
  assert.match(texts[1] ?? "", /And the date\?/u);
  assert.match(texts[4] ?? "", /Sure\./u);
  assert.equal(client.checkpoint?.turns.length, 2);
});
