/** Turns from a request to their end: what is told, in which order, and what the model is asked. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fromBinary } from "../../src/protocol/message.ts";
import { createAgent, ModelFailure } from "../../src/agent/index.ts";
import {
  FailureKind,
  StepBlobSchema,
  ToolOutcome,
  TurnBlobSchema,
  TurnEndReason,
} from "../../src/protocol/messages.ts";
import { KeepingClient, readDone, shellDone, writeDone } from "./keeping-client.ts";
import { ScriptedModel } from "./scripted-model.ts";
import { TurnHost } from "./turn-host.ts";
import { endOf, kindsOf, textOf } from "./told.ts";

test("a question is answered: told piece by piece, kept as blobs, ended once", async () => {
  const words = "Hello you there, and everybody else who may be listening to this";
  const model = ScriptedModel.steps([{ think: "hm" }, words]);
  const host = new TurnHost();
  const client = new KeepingClient(host);
  client.ask("Hi");
  await host.finish(createAgent({ models: model.models }));
  const kinds = kindsOf(host.messages);
  assert.ok(kinds.filter((kind) => kind === "textDelta").length > 1, "not all at once");
  const isFirst = (kind: string, at: number): boolean => kind !== "textDelta" || kinds[at - 1] !== kind;
  assert.deepEqual(kinds.filter(isFirst), [
    "userMessageAppended",
    "set",
    "stepStarted",
    "thinkingDelta",
    "thinkingCompleted",
    "textDelta",
    "set",
    "tokenDelta",
    "stepCompleted",
    "set",
    "set",
    "set",
    "set",
    "checkpoint",
    "turnEnded",
  ]);
  assert.equal(textOf(host.messages), words);
  const { reason, inputTokens, outputTokens, cacheReadTokens } = endOf(host.messages);
  assert.deepEqual([reason, inputTokens, outputTokens, cacheReadTokens], [TurnEndReason.COMPLETED, 10, 5, 3]);
  assert.equal(client.checkpoint?.messages.length, 2);
  assert.equal(client.checkpoint?.turns.length, 1);
});

test("C0: execs of a step leave after its output is complete; parallel calls run together and each has one result", async () => {
  const model = ScriptedModel.steps(
    ["Looking ", { tool: "shell", args: { command: "one" } }, { tool: "read", args: { path: "a.txt" } }],
    ["done"],
  );
  const host = new TurnHost();
  const client = new KeepingClient(host);
  client.carryOut = ({ message }) => (message.case === "readArgs" ? readDone("text\n") : shellDone("out"));
  client.ask("Go");
  await host.finish(createAgent({ models: model.models }));
  const kinds = kindsOf(host.messages);
  assert.ok(kinds.indexOf("exec") > kinds.indexOf("stepCompleted"));
  assert.equal(kinds.filter((kind) => kind === "exec").length, 2);
  assert.ok(
    kinds.lastIndexOf("exec") < kinds.indexOf("toolCallCompleted"),
    "both are asked before either is answered",
  );
  assert.deepEqual([...client.effects.values()], [1, 1]);
  const told = model.calls[1]?.messages.at(-1);
  assert.deepEqual(
    told?.role === "tool" ? told.content.map(({ tool, outcome, text }) => [tool, outcome, text]) : [],
    [
      ["shell", "done", "out"],
      ["read", "done", "text\n"],
    ],
  );
  const blob = (id: Uint8Array | undefined): Uint8Array =>
    client.blobs.get(Buffer.from(id ?? []).toString("hex")) ?? new Uint8Array();
  const { turn } = fromBinary(TurnBlobSchema, blob(client.checkpoint?.turns[0]));
  const steps = turn.case === "agentTurn" ? turn.value.steps : [];
  const kept = steps.map((id) => fromBinary(StepBlobSchema, blob(id)).step);
  assert.deepEqual(
    kept.flatMap(({ case: kind, value }) =>
      kind === "toolCall" ? [[value.tool, value.outcome, value.execIds.length]] : [],
    ),
    [
      ["shell", ToolOutcome.DONE, 1],
      ["read", ToolOutcome.DONE, 1],
    ],
    "the conversation keeps how each call went",
  );
});

test("the model's history only grows: each prompt begins with the one before, and signatures go back", async () => {
  const model = ScriptedModel.steps(
    [{ think: "first" }, { tool: "shell", args: { command: "1" } }],
    [{ think: "second" }, { tool: "shell", args: { command: "2" } }],
    ["done"],
  );
  const host = new TurnHost();
  const client = new KeepingClient(host);
  client.carryOut = () => shellDone("ok");
  client.ask("Go");
  await host.finish(createAgent({ models: model.models }));
  const prompts = model.calls.map(({ messages }) => messages.map((message) => JSON.stringify(message)));
  assert.deepEqual(
    prompts.map(({ length }) => length),
    [1, 3, 5],
  );
  for (const [at, prompt] of prompts.entries())
    assert.deepEqual(prompts.at(-1)?.slice(0, prompt.length), prompt, `prompt ${at}`);
  assert.match(prompts[2]?.[1] ?? "", /"signature":"signed first"/u);
});

test("an edit reads, then writes what it read with the change, or says why not", async () => {
  const edit = (old_text: string) => ({
    tool: "edit",
    args: { path: "a", edits: [{ old_text, new_text: "$&new" }] },
  });
  const model = ScriptedModel.steps([edit("old")], [edit("missing")], ["done"]);
  const host = new TurnHost();
  const client = new KeepingClient(host);
  let written = "";
  client.carryOut = ({ message }) => {
    if (message.case === "readArgs") return readDone("an old text\n");
    assert.ok(message.case === "writeArgs" && message.value.expectedSha256?.length === 32);
    const content = message.value.content?.content;
    written = content?.case === "inline" ? Buffer.from(content.value).toString() : "";
    return writeDone(written.length);
  };
  client.ask("Edit");
  await host.finish(createAgent({ models: model.models }));
  assert.equal(written, "an $&new text\n");
  assert.deepEqual([...client.effects.keys()], ["0.0.0", "0.0.0.write", "1.0.0"]);
  const told = model.calls[2]?.messages.at(-1);
  assert.match(JSON.stringify(told), /"failed".*old_text is not in the file/u);
});

test("calls that make no sense are told to the model, and nothing runs", async () => {
  const model = ScriptedModel.steps(
    [
      { tool: "nonsense", args: {} },
      { tool: "read", args: "{broken" },
      { tool: "read", args: { path: 7 } },
    ],
    ["sorry"],
  );
  const host = new TurnHost();
  const client = new KeepingClient(host);
  client.ask("Go");
  await host.finish(createAgent({ models: model.models }));
  assert.equal(client.effects.size, 0);
  const told = JSON.stringify(model.calls[1]?.messages.at(-1));
  assert.match(told, /There is no tool/u);
  assert.match(told, /not JSON/u);
  assert.match(told, /arguments are wrong/u);
});

test("a conversation goes on from its checkpoint without sending the history, also on a server that knows nothing", async () => {
  const blobs = new Map<string, Uint8Array>();
  let state;
  const prompts: string[] = [];
  for (const [at, question] of ["one", "two", "three"].entries()) {
    const model = ScriptedModel.steps([`answer ${at}`]);
    const host = new TurnHost();
    const client = new KeepingClient(host, blobs);
    client.ask(question, state === undefined ? {} : { conversationState: state });
    await host.finish(createAgent({ models: model.models }));
    assert.equal(endOf(host.messages).reason, TurnEndReason.COMPLETED);
    state = client.checkpoint;
    prompts.push(JSON.stringify(model.calls[0]?.messages));
  }
  assert.equal(state?.messages.length, 6);
  assert.equal(state?.turns.length, 3);
  assert.ok(
    prompts[2]?.startsWith(prompts[1]?.slice(0, -1) ?? "?"),
    "the prompt of a turn begins with the one before",
  );
});

test("a server that still knows the blobs asks for none", async () => {
  const agent = createAgent({ models: ScriptedModel.steps(["answer"]).models });
  const first = new TurnHost();
  const client = new KeepingClient(first);
  client.ask("one");
  await first.finish(agent);
  const second = new TurnHost();
  const next = new KeepingClient(second, client.blobs);
  next.ask("two", { conversationState: client.checkpoint });
  await second.finish(agent);
  assert.equal(kindsOf(second.messages).filter((kind) => kind === "get").length, 0);
  assert.equal(next.checkpoint?.messages.length, 4);
});

test("a blob that the client does not have ends the turn with a failure that says which", async () => {
  const host = new TurnHost();
  const client = new KeepingClient(host);
  client.ask("go on", { conversationState: { messages: [new Uint8Array(32).fill(7)] } });
  await host.finish(createAgent({ models: ScriptedModel.steps(["x"]).models }));
  const { reason, failure } = endOf(host.messages);
  assert.equal(reason, TurnEndReason.FAILED);
  assert.equal(failure?.kind, FailureKind.BLOB_MISSING);
  assert.match(failure?.message ?? "", /0707/u);
});

test("a provider's failure ends the turn with its kind and remedy; what was done until then is kept", async () => {
  const limited = new ModelFailure("rate_limited", "slow down; try again in 7 s", {
    status: 429,
    retryAfterMs: 7_000,
  });
  const model = ScriptedModel.steps([{ tool: "shell", args: { command: "x" } }], ["half an ans", limited]);
  const host = new TurnHost();
  const client = new KeepingClient(host);
  client.carryOut = () => shellDone("ok");
  client.ask("Go");
  await host.finish(createAgent({ models: model.models }));
  const { reason, failure } = endOf(host.messages);
  assert.equal(reason, TurnEndReason.FAILED);
  assert.deepEqual(
    [failure?.kind, failure?.providerStatus, failure?.retryAfterMs],
    [FailureKind.RATE_LIMITED, 429, 7_000],
  );
  assert.equal(client.checkpoint?.messages.length, 3, "question, call and result; not the half answer");
  assert.equal(host.end, "failed");
});

/** A turn whose first step asks nothing of the client: only the disk stands between it and the next model call. */
function twoSteps(): { readonly model: ScriptedModel; readonly host: TurnHost } {
  const todos = [{ id: "1", text: "more", status: "pending" }];
  const model = ScriptedModel.steps([{ tool: "todo_write", args: { todos } }], ["done"]);
  const host = new TurnHost();
  new KeepingClient(host).ask("Go", { keepsBlobs: false });
  return { model, host };
}

test("D3: a turn that is aborted while its step is on its way to the disk calls the model no more", async () => {
  const { model, host } = twoSteps();
  host.onEvent = ({ message }) => {
    // The event before the one that completes the step: that one is accepted, and what follows from it waits for it.
    if (message.case === "interactionUpdate" && message.value.message.case === "tokenDelta") host.abort();
  };
  await host.finish(createAgent({ models: model.models }));
  assert.equal(endOf(host.messages).reason, TurnEndReason.ABORTED);
  assert.ok(kindsOf(host.messages).includes("stepCompleted"), "what was accepted stays");
  assert.equal(model.calls.length, 1);
});

test("a turn that is cancelled while its model call waits for the disk calls no model, and ends in order", async () => {
  const { model, host } = twoSteps();
  host.onEvent = ({ message }) => {
    if (message.case !== "interactionUpdate" || message.value.message.case !== "tokenDelta") return;
    const action = { case: "cancelAction", value: {} } as const;
    host.say({ case: "conversationAction", value: { action } });
  };
  await host.finish(createAgent({ models: model.models }));
  assert.equal(endOf(host.messages).reason, TurnEndReason.ABORTED);
  const steps = kindsOf(host.messages).filter((kind) => kind === "stepStarted" || kind === "stepCompleted");
  assert.deepEqual(steps, ["stepStarted", "stepCompleted", "stepStarted", "stepCompleted"]);
  assert.equal(model.calls.length, 1);
});
