/** What a client says is what the model is told: nothing invented, nothing moved, every byte of a tool call's arguments. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ModelCall } from "../../src/agent/index.ts";
import type { Workspace } from "../../src/gateway/index.ts";
import { writeExecError } from "../../src/protocol/exec-codec.ts";
import { ExecKind } from "../../src/protocol/messages.ts";
import { bodyOf, Exchange, type Line, type Reply, result, said, user } from "./openai-user.ts";
import { PacedModel } from "./paced-model.ts";
import { World } from "./world.ts";

const ask = (world: World, lines: readonly Line[], more: object = {}): Promise<Reply> =>
  new Exchange(world.url, bodyOf(lines, more)).reply();

/** Roles and words. */
const told = ({ messages }: ModelCall): readonly unknown[] =>
  messages.map(({ role, content }) => [
    role,
    content.map((part) => ("text" in part ? part.text : part.type)),
  ]);

const system = (content: string): Line => ({ role: "system", content });
const assistant = (content: string): Line => ({ role: "assistant", content });

test("messages in a row, instructions in the middle and a trailing answer reach the model as they are", async (t) => {
  const world = await World.begin(t, new PacedModel(() => ["Yes."]));
  const lines = [
    system("Be kind."),
    user("One"),
    user(""),
    assistant("a"),
    assistant("b"),
    system("Be brief."),
    user("Two"),
    assistant("So"),
  ];
  assert.equal((await ask(world, lines)).text, "Yes.");
  const [call] = world.model.calls;
  assert.ok(call !== undefined);
  assert.equal(call.system, "Be kind.");
  assert.deepEqual(told(call), [
    ["user", ["One"]],
    ["user", [""]],
    ["assistant", ["a"]],
    ["assistant", ["b"]],
    ["system", ["Be brief."]],
    ["user", ["Two"]],
    ["assistant", ["So"]],
  ]);
});

test("a request of instructions alone is one, and its conversation goes on", async (t) => {
  const world = await World.begin(t, new PacedModel(() => ["La."]));
  const first = await ask(world, [system("Sing.")]);
  assert.equal(first.text, "La.");
  await ask(world, [system("Sing."), said(first), user("More"), system("Louder."), user("!")]);
  const [alone, next] = world.model.calls;
  assert.ok(alone !== undefined && next !== undefined);
  assert.deepEqual([alone.system, told(alone)], ["Sing.", []]);
  assert.equal(next.conversationId, alone.conversationId, "the same conversation");
  assert.deepEqual(
    [next.system, told(next)],
    [
      "Sing.",
      [
        ["assistant", ["La."]],
        ["user", ["More"]],
        ["system", ["Louder."]],
        ["user", ["!"]],
      ],
    ],
  );
});

test("a workspace adds no instructions of its own", async (t) => {
  const workspace: Workspace = {
    kinds: [ExecKind.READ],
    carryOut: async (exec) => writeExecError(exec, "not today"),
  };
  const world = await World.begin(t, new PacedModel(() => ["Yes."]), { workspace });
  await ask(world, [user("Hello")]);
  assert.equal(world.model.calls[0]?.system, "");
});

const ARGS = '{ "id": 12345678901234567890, "2":1.0, "1":2 }';

test("a client that writes arguments again changes nothing: the model gets back its own bytes", async (t) => {
  const model = new PacedModel((_, count) =>
    count === 1 ? [{ tool: "look", args: ARGS }] : count === 2 ? ["Seen."] : ["Yes."],
  );
  const world = await World.begin(t, model);
  const first = await ask(world, [user("Look")]);
  assert.equal(first.calls[0]?.args, ARGS, "the client has every byte");
  const rewritten = first.calls.map((call) => ({ ...call, args: JSON.stringify(JSON.parse(call.args)) }));
  assert.notEqual(rewritten[0]?.args, ARGS);
  const lines = [user("Look"), said({ ...first, calls: rewritten }), result(first.calls[0]?.id ?? "", "a")];
  const second = await ask(world, lines);
  assert.equal(second.streamId, first.streamId, "the same turn");
  await ask(world, [...lines, said(second), user("And?")]);
  for (const call of world.model.calls.slice(1)) {
    const calls = call.messages.flatMap((message) => (message.role === "assistant" ? message.content : []));
    assert.deepEqual(
      calls.flatMap((part) => (part.type === "tool-call" ? [part.args] : [])),
      [ARGS],
    );
  }
});

test("what is said behind tool results keeps its form, and goes into the turn that waits", async (t) => {
  const model = new PacedModel((_, count) => (count === 1 ? [{ tool: "look", args: {} }] : ["Seen."]));
  const world = await World.begin(t, model);
  const first = await ask(world, [user("Look")]);
  const image = { url: "data:image/png;base64,iVBORw==", detail: "low" };
  const second = await ask(world, [
    user("Look"),
    said(first),
    result(first.calls[0]?.id ?? "", "a"),
    system("Be brief."),
    {
      role: "user",
      name: "ann",
      content: [
        { type: "text", text: "see" },
        { type: "image_url", image_url: image },
        { type: "text", text: "\n\n" },
        { type: "text", text: "this" },
      ],
    },
  ]);
  assert.equal(second.streamId, first.streamId, "the same turn");
  const call = model.calls[1];
  assert.ok(call !== undefined);
  assert.deepEqual(told(call).slice(-2), [
    ["system", ["Be brief."]],
    ["user", ["see", "file", "\n\n", "this"]],
  ]);
  const last = call.messages.at(-1);
  assert.ok(last?.role === "user");
  assert.equal(last.name, "ann");
  const file = last.content.find((part) => part.type === "file");
  assert.equal(file?.detail, "low");
  assert.deepEqual(Buffer.from(await call.file(file?.blobId ?? "")).toString("hex"), "89504e47");
});
