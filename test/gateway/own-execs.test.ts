/**
 * Execs that are not the client's: the read that an edit begins with, by a server that is not our agent.
 * And the promise of every pause: what a later request needs is durable before it is told.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Workspace } from "../../src/gateway/index.ts";
import { writeExecError } from "../../src/protocol/exec-codec.ts";
import { ExecKind, FinishReason } from "../../src/protocol/messages.ts";
import { until } from "../e2e/rig.ts";
import { bodyOf, Exchange, type Reply, user } from "./openai-user.ts";
import { PacedModel } from "./paced-model.ts";
import { scriptedTurn } from "./scripted-turn.ts";
import { World } from "./world.ts";

const MODEL = new PacedModel(() => []);

const ask = (world: World): Promise<Reply> => new Exchange(world.url, bodyOf([user("Edit it")])).reply();

/** Calls the edit tool, reads the file as the server's own step of it, and says what the read gave. */
const editing = scriptedTurn(async (speaker) => {
  await speaker.stepStarted(0);
  const toolCall = { toolCallId: "call_1", tool: "edit", execIds: ["0.0.0"] };
  await speaker.update({ case: "toolCallStarted", value: { toolCall } });
  await speaker.update({ case: "stepCompleted", value: { step: 0, finishReason: FinishReason.TOOL_CALLS } });
  const { message } = await speaker.exec("0.0.0", { case: "readArgs", value: { path: "a.txt" } });
  await speaker.update({ case: "toolCallCompleted", value: { toolCall } });
  await speaker.stepStarted(1);
  await speaker.text(message.case === "execClientMessage" ? "It was read." : "Nobody can read here.");
  await speaker.stepCompleted(1);
  await speaker.end();
});

test("a read that belongs to an edit is answered by a gateway with a workspace, and never told as a tool call", async (t) => {
  const asked: string[] = [];
  const workspace: Workspace = {
    kinds: [ExecKind.READ],
    carryOut: async (exec) => {
      asked.push(exec.kind);
      return writeExecError(exec, "as good as any result");
    },
  };
  const world = await World.begin(t, MODEL, { application: editing, workspace });
  const reply = await ask(world);
  assert.deepEqual([reply.text, reply.finish, reply.calls.length], ["It was read.", "stop", 0]);
  assert.deepEqual(asked, ["read"]);
});

test("without a workspace it is answered as well: no turn waits for what nobody can do", async (t) => {
  const world = await World.begin(t, MODEL, { application: editing });
  const reply = await ask(world);
  assert.deepEqual([reply.text, reply.finish, reply.calls.length], ["Nobody can read here.", "stop", 0]);
});

test("tool calls are told only when the session that awaits their results is durable", async (t) => {
  const model = new PacedModel(() => ["Let me see. ", { tool: "look", args: {} }]);
  const disk = Promise.withResolvers<void>();
  // Before the world stops, which waits for its disk.
  t.after(() => disk.resolve());
  const world = await World.begin(t, model);
  const batch = world.tables.batch.bind(world.tables);
  let saves = 0;
  world.tables.batch = async (writes) => {
    // The first one begins the session, the second one parks it.
    if (writes.some(({ table }) => table === "gateway_sessions") && ++saves > 1) await disk.promise;
    return batch(writes);
  };
  const exchange = new Exchange(world.url, bodyOf([user("Look")]));
  await exchange.until("see");
  await until(() => saves > 1, "a write of the pause");
  // Whatever could be told by now has been told.
  for (let turns = 0; turns < 50; turns++) await new Promise((resolve) => setImmediate(resolve));
  assert.ok(!exchange.hasCome("tool_calls"));
  disk.resolve();
  const reply = await exchange.reply();
  assert.equal(reply.finish, "tool_calls");
});
