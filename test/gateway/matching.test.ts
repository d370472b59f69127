/**
 * Which session a request belongs to, row by row of the table in docs/GATEWAY.md, over HTTP with the real agent.
 *
 * Each row looks at the answer, at how often the model was called, and at the session that the request does not belong to: it is left as it was.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { FreshReason } from "../../src/gateway/matching.ts";
import { BOB_KEY } from "../server/http/rig.ts";
import { bodyOf, Exchange, type Line, type Reply, result, said, tool, TOOLS, user } from "./openai-user.ts";
import { lastTold, PacedModel } from "./paced-model.ts";
import { World, type WorldOptions } from "./world.ts";

/** Asked to look, it calls two tools; told what they saw, it says so. */
function lookingModel(id?: string): PacedModel {
  return new PacedModel((call) => {
    const told = lastTold(call);
    if (call.tools.length > 0 && told.startsWith("Look")) {
      return ["Let me see. ", { tool: "look", args: { at: "a" } }, { tool: "look", args: { at: "b" } }];
    }
    return [`You said ${told}`];
  }, id);
}

interface Parked {
  readonly world: World;
  readonly asked: readonly Line[];
  readonly reply: Reply;
}

const ask = (world: World, body: string, asking = {}): Promise<Reply> =>
  new Exchange(world.url, body, asking).reply();

async function parked(t: TestContext, options: WorldOptions = {}): Promise<Parked> {
  const world = await World.begin(t, lookingModel(), options);
  const asked = [user("Look around")];
  const reply = await ask(world, bodyOf(asked));
  assert.equal(reply.finish, "tool_calls");
  assert.equal(reply.calls.length, 2);
  assert.ok(reply.isWhole);
  return { world, asked, reply };
}

function resultsOf({ calls }: Reply): readonly Line[] {
  return calls.map(({ id, args }) => result(id, `saw ${args}`));
}

function isParkedStill({ world, reply }: Parked): void {
  const [session] = world.gateway.sessions;
  assert.equal(world.gateway.sessions.length, 1, "only the parked session is open");
  assert.equal(session?.answer.streamId, reply.streamId);
  assert.equal(session.state, "parked");
}

/** What it says, it says in a stream of its own; the parked session waits on and can be continued afterwards. */
async function becomesFresh(found: Parked, body: string, reason: FreshReason, asking = {}): Promise<void> {
  const { world, asked, reply } = found;
  const { fresh } = world.gateway.counters;
  const before = fresh.get(reason) ?? 0;
  const other = await ask(world, body, asking);
  assert.equal(other.finish, "stop", other.body);
  assert.notEqual(other.streamId, reply.streamId);
  assert.equal(fresh.get(reason), before + 1);
  isParkedStill(found);
  const answer = await ask(world, bodyOf([...asked, said(reply), ...resultsOf(reply)]));
  assert.equal(answer.streamId, reply.streamId, "and it is continued as if nothing had been");
  assert.equal(world.gateway.counters.continuedTurns, 1);
}

test("all results go into the open stream, in any order, and only they reach the model", async (t) => {
  const { world, asked, reply } = await parked(t);
  const next = [...asked, said(reply), ...resultsOf(reply).toReversed()];
  const answer = await ask(world, bodyOf(next));
  assert.equal(answer.streamId, reply.streamId);
  assert.equal(answer.text, 'You said saw {"at":"a"}|saw {"at":"b"}');
  assert.equal(answer.finish, "stop");
  assert.equal(world.model.calls.length, 2);
  assert.equal(world.gateway.counters.continuedTurns, 1);
  assert.deepEqual(world.gateway.sessions, []);

  const more = await ask(world, bodyOf([...next, said(answer), user("Thanks")]));
  assert.equal(more.text, "You said Thanks");
  assert.notEqual(more.streamId, reply.streamId);
  assert.equal(world.gateway.counters.continuedConversations, 1);
  const roles = world.model.calls[2]?.messages.map(({ role }) => role);
  assert.deepEqual(roles, ["user", "assistant", "tool", "assistant", "user"]);
});

test("words behind the results are told with them", async (t) => {
  const { world, asked, reply } = await parked(t);
  const answer = await ask(world, bodyOf([...asked, said(reply), ...resultsOf(reply), user("and hurry")]));
  assert.equal(answer.streamId, reply.streamId);
  assert.equal(answer.text, "You said and hurry", answer.body);
});

test("a client that writes its history in its own way continues all the same", async (t) => {
  const { world, asked, reply } = await parked(t);
  const calls = reply.calls.map(({ id, name, args }) => ({
    type: "function",
    function: { arguments: args.replace(":", " : "), name },
    id,
  }));
  const content = [{ type: "text", text: "Let me see. ", cache_control: { type: "ephemeral" } }];
  const line = { tool_calls: calls, content, refusal: null, annotations: [], role: "assistant" };
  const results = resultsOf(reply).map((one) => Object.assign({ name: "look" }, one));
  const answer = await ask(
    world,
    bodyOf([...asked, line, ...results], { max_tokens: 77, tools: TOOLS.toReversed() }),
  );
  assert.equal(answer.streamId, reply.streamId);
});

test("partly answered: a stream of its own", async (t) => {
  const found = await parked(t);
  const some = resultsOf(found.reply).slice(1);
  await becomesFresh(found, bodyOf([...found.asked, said(found.reply), ...some]), "partly_answered");
});

test("unknown tool call ids: a stream of its own", async (t) => {
  const found = await parked(t);
  const calls = found.reply.calls.map((call, at) => ({ ...call, id: `unknown0${at}` }));
  const reply = { ...found.reply, calls };
  await becomesFresh(found, bodyOf([...found.asked, said(reply), ...resultsOf(reply)]), "unknown_tool_ids");
});

test("E2: another principal's tool call ids are unknown ones", async (t) => {
  const found = await parked(t);
  const body = bodyOf([...found.asked, said(found.reply), ...resultsOf(found.reply)]);
  await becomesFresh(found, body, "unknown_tool_ids", { apiKey: BOB_KEY });
});

test("an edited history: a stream of its own", async (t) => {
  const found = await parked(t);
  const body = bodyOf([user("Look about"), said(found.reply), ...resultsOf(found.reply)]);
  await becomesFresh(found, body, "diverged");
});

test("a shorter history: a stream of its own", async (t) => {
  const found = await parked(t);
  await becomesFresh(found, bodyOf([said(found.reply), ...resultsOf(found.reply)]), "diverged");
});

test("another system prompt: a stream of its own", async (t) => {
  const found = await parked(t);
  const next = [...found.asked, said(found.reply), ...resultsOf(found.reply)];
  await becomesFresh(found, bodyOf([{ role: "system", content: "Be brief" }, ...next]), "diverged");
});

test("other tools: a stream of its own", async (t) => {
  const found = await parked(t);
  const next = [...found.asked, said(found.reply), ...resultsOf(found.reply)];
  await becomesFresh(found, bodyOf(next, { tools: [...TOOLS, tool("more")] }), "diverged");
});

test("another model: a stream of its own", async (t) => {
  const others = [lookingModel("paced/other")];
  const found = await parked(t, { others });
  const next = [...found.asked, said(found.reply), ...resultsOf(found.reply)];
  await becomesFresh(found, bodyOf(next, { model: "paced/other" }), "diverged");
});

test("a title request in between belongs to nobody", async (t) => {
  const found = await parked(t);
  await becomesFresh(found, bodyOf([user("A title for: Look around")], { tools: undefined }), "new");
});

test("compaction: a new, short history; the result that never comes harms nobody", async (t) => {
  const found = await parked(t);
  await becomesFresh(found, bodyOf([user("So far: nothing. Go on")]), "new");
});

test("expired: nobody is told, the history is sent again", async (t) => {
  const { world, asked, reply } = await parked(t);
  world.nowMs += 31 * 60_000;
  const answer = await ask(world, bodyOf([...asked, said(reply), ...resultsOf(reply)]));
  assert.equal(answer.finish, "stop");
  assert.notEqual(answer.streamId, reply.streamId);
  assert.equal(world.gateway.counters.fresh.get("unknown_tool_ids"), 1);
});

test("two requests at once for one session: one continues it, the other gets a stream of its own", async (t) => {
  const { world, asked, reply } = await parked(t);
  const next = [...asked, said(reply), ...resultsOf(reply)];
  const answers = await Promise.all([
    ask(world, bodyOf(next)),
    ask(world, bodyOf(next, { temperature: 0.5 })),
    ask(world, bodyOf(next, { temperature: 0.6 })),
  ]);
  const [first] = answers;
  for (const answer of answers) assert.equal(answer.text, first.text);
  assert.equal(answers.filter(({ streamId }) => streamId === reply.streamId).length, 1);
  assert.equal(world.model.calls.length, 4);
  assert.equal(world.gateway.counters.continuedTurns, 1);
});

test("reuse switched off: every request is a stream of its own", async (t) => {
  const { world, asked, reply } = await parked(t, { isReusing: false });
  const answer = await ask(world, bodyOf([...asked, said(reply), ...resultsOf(reply)]));
  assert.notEqual(answer.streamId, reply.streamId);
  assert.equal(answer.text, 'You said saw {"at":"a"}|saw {"at":"b"}');
  assert.equal(world.gateway.counters.fresh.get("reuse_off"), 2);
});
