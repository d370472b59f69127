/**
 * Conversations end to end: the real agent with the rehearsal model, real HTTP, stores in SQLite.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { fromBinary } from "../../src/protocol/message.ts";
import { createAgent } from "../../src/agent/index.ts";
import { createModels } from "../../src/agent/models/index.ts";
import { openClient, storesOf } from "../../src/client-node/index.ts";
import { Conversations, type SubagentRunner, subagentRunner, type Tools } from "../../src/client/index.ts";
import { ExecKind, ExecServerMessageSchema } from "../../src/protocol/index.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { serveHttp } from "../../src/server/http/index.ts";
import { createServer } from "../../src/server/index.ts";
import { memoryBlobStore, memoryStreamStore } from "../../src/store/index.ts";
import { until } from "../e2e/rig.ts";
import { temporaryDirectory } from "./temporary.ts";

const HOME_KEY = new Uint8Array(32).fill(6);

async function serve(t: TestContext): Promise<string> {
  const bugs: unknown[] = [];
  const server = createServer({
    store: await memoryStreamStore({ now: Date.now }),
    sealing: nodeSealing(),
    application: createAgent({ models: createModels({ environment: {} }) }),
    blobs: memoryBlobStore({ now: Date.now }),
    onBug: (bug) => bugs.push(bug),
  });
  const http = await serveHttp({ server, port: 0, authenticate: async () => ({ principal: "me" }) });
  t.after(async () => {
    await http.close({ drainMs: 0 });
    assert.deepEqual(bugs, []);
  });
  return http.url;
}

function tools(runner: () => SubagentRunner): Tools {
  return {
    policy: () => ({ repeatable: true, needsApproval: false }),
    approve: async () => ({ allowed: true, untilMs: Infinity }),
    stopLeftover: () => undefined,
    run: async (exec, run) => {
      const { message } = fromBinary(ExecServerMessageSchema, exec.args);
      assert.ok(message.case === "subagentArgs");
      return runner().run(message.value, exec, run);
    },
  };
}

async function start(t: TestContext, url: string, directory: string) {
  const runner = subagentRunner({ conversations: () => conversations });
  const client = await openClient({
    url,
    apiKey: "any",
    scope: "application",
    directory,
    homeKey: HOME_KEY,
    tools: tools(() => runner),
  });
  t.after(() => client.close());
  const conversations: Conversations = new Conversations({
    client,
    ...storesOf(client),
    tools: { kinds: [ExecKind.SUBAGENT], definitions: [] },
  });
  return { client, conversations };
}

test("a conversation with the agent goes on after a restart of the client, and is shown as it was", async (t) => {
  const url = await serve(t);
  const directory = temporaryDirectory(t);
  const first = await start(t, url, directory);
  const begun = await first.conversations.begin({ model: "rehearsal/rehearsal" });
  const ends = [await (await begun.send({ text: "think hm\nsay one" })).ended];
  ends.push(await (await begun.send({ text: `say ${"a-rather-long-word ".repeat(4_000)}end` })).ended);
  assert.deepEqual(
    ends.map(({ reason }) => reason),
    ["completed", "completed"],
  );
  await first.client.close();

  const second = await start(t, url, directory);
  const [listed] = await second.conversations.list();
  const conversation = await second.conversations.open(listed?.conversationId ?? "");
  const { reason, text, failure } = await (await conversation.send({ text: "say three" })).ended;
  assert.deepEqual([reason, failure, text.trim()], ["completed", undefined, "three"]);
  const { turns } = await conversation.full();
  assert.equal(turns.length, 3);
  const steps = turns.flatMap((turn) => (turn.kind === "agent" ? turn.steps : []));
  assert.ok(steps.length >= 4 && steps.every(({ kind }) => kind === "found"));
  const report = await second.conversations.collectGarbage({ graceMs: 0 });
  assert.deepEqual([report.missing, report.unreadable], [[], []]);
  assert.equal((await (await conversation.send({ text: "say four" })).ended).reason, "completed");
  assert.equal((await conversation.full()).turns.length, 4);
});

test("D3: the agent's conversation goes on after an abort, with what was said in it", async (t) => {
  const { conversations } = await start(t, await serve(t), temporaryDirectory(t));
  const conversation = await conversations.begin({ model: "rehearsal/rehearsal" });
  await (
    await conversation.send({ text: "say one" })
  ).ended;
  const stopped = await conversation.send({ text: "count to 10000 every 5 ms" });
  await until(() => stopped.view.parts.length > 0, "it counts");
  await stopped.abort();
  const { reason, text } = await stopped.ended;
  assert.equal(reason, "aborted");
  assert.match(text, /^1 /);
  assert.equal(conversation.state?.messages.length, 4);
  const after = await (await conversation.send({ text: "say three" })).ended;
  assert.deepEqual([after.reason, after.failure], ["completed", undefined]);
  assert.equal((await conversation.full()).turns.length, 3);
});

test("a subagent of the agent answers its parent", async (t) => {
  const { conversations } = await start(t, await serve(t), temporaryDirectory(t));
  const conversation = await conversations.begin({ model: "rehearsal/rehearsal" });
  const turn = await conversation.send({ text: "subagent say from below" });
  const { reason, failure, text } = await turn.ended;
  assert.deepEqual([reason, failure], ["completed", undefined]);
  assert.match(text, /from below/);
  const tool = turn.view.parts.find((part) => part.type === "tool");
  assert.equal(tool?.outcome, "done");
  assert.deepEqual(tool.progress, ["step 1"]);
  assert.equal((await conversations.list()).length, 1);
});
