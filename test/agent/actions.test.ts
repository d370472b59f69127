/** What else a turn can be asked: to go on, to sum up, to run a command, to stop; and where it stops by itself. */
import assert from "node:assert/strict";
import { fromBinary } from "../../src/protocol/message.ts";
import { test } from "node:test";
import { createAgent, type TurnLimits } from "../../src/agent/index.ts";
import {
  type AgentServerMessage,
  type ConversationState,
  FailureKind,
  TodoItemSchema,
  TodoStatus,
  TurnBlobSchema,
  TurnEndReason,
} from "../../src/protocol/messages.ts";
import { KeepingClient, shellDone } from "./keeping-client.ts";
import { type Said, ScriptedModel } from "./scripted-model.ts";
import { endOf, kindsOf, textOf } from "./told.ts";
import { TurnHost } from "./turn-host.ts";

const CALL: Said = { tool: "shell", args: { command: "again" } };

function hosted(
  model: ScriptedModel,
  limits: Partial<TurnLimits> = {},
  blobs = new Map<string, Uint8Array>(),
) {
  const host = new TurnHost();
  const client = new KeepingClient(host, blobs);
  client.carryOut = () => shellDone("ok");
  const finish = (): Promise<void> => host.finish(createAgent({ models: model.models, limits }));
  return { host, client, finish };
}

async function oneTurn(blobs: Map<string, Uint8Array>): Promise<ConversationState | undefined> {
  const { client, finish } = hosted(ScriptedModel.steps([CALL], ["first answer"]), {}, blobs);
  client.ask("first question");
  await finish();
  return client.checkpoint;
}

test("continue goes on without a message; there must be something to go on with", async () => {
  const blobs = new Map<string, Uint8Array>();
  const conversationState = await oneTurn(blobs);
  const model = ScriptedModel.steps(["more"]);
  const { client, finish, host } = hosted(model, {}, blobs);
  const action = { action: { case: "continueAction", value: {} } } as const;
  client.request({ action, conversationState });
  await finish();
  assert.equal(textOf(host.messages), "more");
  assert.equal(client.checkpoint?.messages.length, 6);
  const empty = hosted(model);
  empty.client.request({ action });
  await empty.finish();
  assert.equal(endOf(empty.host.messages).failure?.kind, FailureKind.INVALID_REQUEST);
});

test("summarize replaces the messages by a summary and keeps the turns", async () => {
  const blobs = new Map<string, Uint8Array>();
  const conversationState = await oneTurn(blobs);
  const model = ScriptedModel.steps(["We talked."]);
  const { client, finish, host } = hosted(model, {}, blobs);
  client.request({ action: { action: { case: "summarizeAction", value: {} } }, conversationState });
  await finish();
  assert.ok(kindsOf(host.messages).includes("summary"));
  assert.equal(model.calls[0]?.tools.length, 0);
  assert.equal(client.checkpoint?.messages.length, 1);
  assert.equal(client.checkpoint?.turns.length, 1);
  const summary = Buffer.from(client.checkpoint?.summary ?? []).toString("hex");
  assert.equal(Buffer.from(blobs.get(summary) ?? []).toString(), "We talked.");
});

test("a command of the user's runs without the model and becomes part of the conversation", async () => {
  const model = ScriptedModel.steps(["never asked"]);
  const { client, finish, host } = hosted(model);
  const shell = { case: "shellCommandAction", value: { command: "date", workingDirectory: "" } } as const;
  client.request({ action: { action: shell } });
  await finish();
  assert.equal(model.calls.length, 0);
  assert.equal(client.carriedOut[0]?.message.case, "shellStreamArgs");
  assert.equal(endOf(host.messages).reason, TurnEndReason.COMPLETED);
  const [message, turn] = [client.checkpoint?.messages[0], client.checkpoint?.turns[0]].map(
    (id) => client.blobs.get(Buffer.from(id ?? []).toString("hex")) ?? new Uint8Array(),
  );
  assert.match(Buffer.from(message ?? []).toString(), /\$ date\\nok/u);
  assert.equal(fromBinary(TurnBlobSchema, turn ?? new Uint8Array()).turn.case, "shellTurn");
});

test("cancel ends a turn in good order: the text so far is kept, running execs are told and answered", async () => {
  const model = ScriptedModel.steps(["half an ", ...Array.from({ length: 50 }, () => "answer ")]);
  const { client, finish, host } = hosted(model);
  const answer = host.onEvent;
  host.onEvent = (message, eventId) => {
    answer(message, eventId);
    if (textOf(host.messages) === "half an ") {
      const action = { case: "cancelAction", value: { reason: "enough" } } as const;
      host.say({ case: "conversationAction", value: { action } });
    }
  };
  client.ask("Go");
  await finish();
  assert.equal(endOf(host.messages).reason, TurnEndReason.ABORTED);
  const [, kept] = client.checkpoint?.messages ?? [];
  assert.match(
    Buffer.from(client.blobs.get(Buffer.from(kept ?? []).toString("hex")) ?? []).toString(),
    /half an /u,
  );

  const running = hosted(ScriptedModel.steps([CALL], ["never"]));
  running.client.carryOut = () => {
    running.host.say({ case: "conversationAction", value: { action: { case: "cancelAction", value: {} } } });
    return undefined;
  };
  const hear = running.host.onEvent;
  running.host.onEvent = (message, eventId) => {
    hear(message, eventId);
    if (message.message.case !== "execServerControlMessage") return;
    const result = { case: "aborted", value: { detail: "stopped" } } as const;
    const reply = { case: "shellStreamResult", value: { result } } as const;
    running.host.say({ case: "execClientMessage", value: { execId: "0.0.0", message: reply } });
  };
  running.client.ask("Go");
  await running.finish();
  assert.equal(
    kindsOf(running.host.messages).filter((kind) => kind === "execServerControlMessage").length,
    1,
  );
  assert.equal(endOf(running.host.messages).reason, TurnEndReason.ABORTED);
});

test("what the user says meanwhile is taken up at the next step, once, also over a restart", async () => {
  for (const loseAt of [undefined, 10, 14, 18, 20]) {
    const model = new ScriptedModel(({ messages }) =>
      messages.some(({ role }) => role === "tool") ? ["done"] : [CALL],
    );
    const { client, host } = hosted(model);
    client.carryOut = () => {
      const action = { case: "userMessageAction", value: { userMessage: { text: "by the way" } } } as const;
      host.say({ case: "conversationAction", value: { action } });
      return shellDone("ok");
    };
    client.ask("Go");
    await host.finish(createAgent({ models: model.models }), loseAt);
    assert.equal(kindsOf(host.messages).filter((kind) => kind === "userMessageAppended").length, 2);
    assert.match(JSON.stringify(model.calls.at(-1)?.messages.at(-1)), /by the way/u);
  }
});

test("a turn that takes too many steps, uses too many tokens or goes round in circles stops with a reason", async () => {
  let count = 0;
  const busy = (): ScriptedModel =>
    new ScriptedModel(() => [{ tool: "shell", args: { command: String(count++) } }]);
  const cases = [
    { model: busy(), limits: { stepsMax: 3 }, kind: FailureKind.STEP_LIMIT, calls: 3 },
    { model: busy(), limits: { tokensMax: 40 }, kind: FailureKind.TOKEN_LIMIT, calls: 3 },
    { model: new ScriptedModel(() => [CALL]), limits: {}, kind: FailureKind.NO_PROGRESS, calls: 4 },
  ];
  for (const { model, limits, kind, calls } of cases) {
    const { client, finish, host } = hosted(model, limits);
    client.ask("Go");
    await finish();
    assert.equal(endOf(host.messages).failure?.kind, kind);
    assert.equal(model.calls.length, calls);
    assert.ok((client.checkpoint?.messages.length ?? 0) > 2, "what was done is kept");
  }
});

test("the model asks the user and is told the answer; nobody to ask is an answer too", async () => {
  const ask: Said = {
    tool: "ask_user",
    args: { questions: [{ text: "Which?", options: ["left", "right"] }] },
  };
  const model = ScriptedModel.steps([ask], ["done"]);
  const { client, finish, host } = hosted(model);
  const answer =
    (value: { optionIds: string[]; text: string }) =>
    ({ message }: AgentServerMessage): void => {
      assert.ok(message.case === "interactionQuery" && message.value.query.case === "askQuestion");
      const answers = [{ questionId: "1", ...value }];
      const response = { case: "askQuestion", value: { answers } } as const;
      host.say({ case: "interactionResponse", value: { id: message.value.id, response } });
      // A second answer counts for nothing (A8).
      host.say({
        case: "interactionResponse",
        value: { id: message.value.id, response: { case: "unanswerable", value: {} } },
      });
    };
  client.onQuery = answer({ optionIds: ["2"], text: "sure" });
  client.ask("Go");
  await finish();
  assert.match(JSON.stringify(model.calls[1]?.messages.at(-1)), /1: option 2; sure/u);

  const closed = hosted(ScriptedModel.steps([ask], ["done"]));
  closed.client.isMute = true;
  closed.client.ask("Go", { keepsBlobs: false });
  closed.host.hear({ kind: "close", seqno: 1 });
  await closed.finish();
  assert.equal(endOf(closed.host.messages).reason, TurnEndReason.COMPLETED);
});

test("the model's list of things to do is part of the conversation", async () => {
  const todos = [
    { id: "a", text: "look", status: "completed" },
    { id: "b", text: "fix", status: "in_progress" },
  ];
  const { client, finish } = hosted(ScriptedModel.steps([{ tool: "todo_write", args: { todos } }], ["done"]));
  client.ask("Go");
  await finish();
  const kept = client.checkpoint?.todos.map((id) =>
    fromBinary(TodoItemSchema, client.blobs.get(Buffer.from(id).toString("hex")) ?? new Uint8Array()),
  );
  assert.deepEqual(
    kept?.map(({ id, status }) => [id, status]),
    [
      ["a", TodoStatus.COMPLETED],
      ["b", TodoStatus.IN_PROGRESS],
    ],
  );
});

test("a client that keeps no blobs is asked for none, and its history is what it sends", async () => {
  const model = ScriptedModel.steps(["answer"]);
  const { client, finish, host } = hosted(model);
  const history = [
    { role: "user", content: [{ type: "text", text: "before" }] },
    { role: "assistant", content: [{ type: "tool-call", toolCallId: "x", tool: "t", args: "{}" }] },
  ].map((message) => ({ content: { case: "inline", value: Buffer.from(JSON.stringify(message)) } }) as const);
  client.ask("now", { keepsBlobs: false, history });
  await finish();
  assert.deepEqual(
    kindsOf(host.messages).filter((kind) => ["set", "get", "checkpoint"].includes(kind)),
    [],
  );
  const roles = model.calls[0]?.messages.map(({ role }) => role);
  assert.deepEqual(
    roles,
    ["user", "assistant", "tool", "user"],
    "a call without a result gets one that says so",
  );
});

test("an answer too large for an event goes by a blob, and a restart finds it there", async () => {
  const long = "0123456789 ".repeat(20_000);
  for (const loseAt of [undefined, 30]) {
    const { client, host } = hosted(new ScriptedModel(() => [long]));
    client.ask("Go");
    await host.finish(createAgent({ models: new ScriptedModel(() => [long]).models }), loseAt);
    assert.equal(textOf(host.messages), long);
    assert.ok(host.blobs.size > 0);
    assert.ok(client.checkpoint !== undefined);
  }
});

test("requests that make no sense end the turn at once and say why", async () => {
  const bad = [
    { request: {}, why: /nothing to do/u },
    {
      request: {
        model: "no/such",
        action: { action: { case: "userMessageAction", value: { userMessage: { text: "x" } } } },
      },
      why: /no model/u,
    },
    {
      request: {
        tools: [{ name: "t", parametersJson: "[]" }],
        action: { action: { case: "continueAction", value: {} } },
      },
      why: /JSON Schema/u,
    },
    {
      request: { subagentDepth: 11, action: { action: { case: "continueAction", value: {} } } },
      why: /10 deep/u,
    },
  ] as const;
  for (const { request, why } of bad) {
    const { client, finish, host } = hosted(ScriptedModel.steps(["x"]));
    client.request({ ...request, tools: "tools" in request ? [...request.tools] : [] });
    await finish();
    const { reason, failure } = endOf(host.messages);
    assert.equal(reason, TurnEndReason.FAILED);
    assert.match(failure?.message ?? "", why);
  }
  const host = new TurnHost();
  host.hear({ kind: "chunk", seqno: 0, body: Uint8Array.of(255, 255, 255) });
  await host.finish(createAgent({ models: ScriptedModel.steps(["x"]).models }));
  assert.equal(endOf(host.messages).failure?.kind, FailureKind.INVALID_REQUEST);
});
