/**
 * The gateway on three nodes of one PostgreSQL: what a request began at one of them goes on at another, whatever became of the first, and the model is asked for nothing twice.
 */
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { isStepCount, streamText, tool } from "ai";
import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import OpenAI from "openai";
import { z } from "zod";
import { openNetwork } from "../../src/cli/demo/network.ts";
import { binaryFor, Opencode } from "../gateway/clients/opencode-binary.ts";
import { Exchange } from "../gateway/openai-user.ts";
import { asked, type PostgresServer, startPostgres } from "../store/postgres/server.ts";
import { CountedProvider, MODEL } from "./counted-provider.ts";
import { type ClusterNode, LEASE_MS, startNode } from "./processes.ts";

const ROUNDS = 4 * Number(process.env["HOLDFAST_NODE_ROUNDS"] ?? 1);
const COUNTED = "1 2 3 4 5 6 7 8 9 10";
const API_KEY = "one-api-key-for-all-nodes";

let postgres: PostgresServer;
let url: string;
let provider: CountedProvider;
let nodes: readonly ClusterNode[];
const ends: (() => unknown)[] = [];

before(async () => {
  postgres = await startPostgres();
  url = await postgres.newDatabase();
  const t = { after: (end: () => unknown) => void ends.unshift(end) };
  provider = await CountedProvider.start(t);
  const env = {
    HOLDFAST_HOME_KEY: randomBytes(32).toString("base64url"),
    HOLDFAST_API_KEY: API_KEY,
    ...provider.env,
  };
  nodes = await Promise.all([0, 1, 2].map(() => startNode(t, url, env, provider.settings)));
});
after(async () => {
  for (const end of ends) await end();
  await postgres.close();
});

type Messages = OpenAI.ChatCompletionMessageParam[];

const ECHO = {
  type: "function",
  function: { name: "echo", parameters: { type: "object", properties: { text: { type: "string" } } } },
} as const;

function node(at: number): ClusterNode {
  return nodes[at] ?? assert.fail("there is such a node");
}

/** Killed, and started again behind the work. */
async function without(at: number, work: () => Promise<void>): Promise<void> {
  await node(at).kill();
  try {
    await work();
  } finally {
    await node(at).start();
  }
}

function openai(at: number, apiKey = API_KEY): OpenAI {
  return new OpenAI({ baseURL: `${node(at).running.url}/v1`, apiKey, maxRetries: 0 });
}

function user(content: string): Messages[number] {
  return { role: "user", content };
}

async function chat(
  at: number,
  messages: Messages,
  { headers = {}, apiKey = API_KEY }: { headers?: Record<string, string>; apiKey?: string } = {},
) {
  const body = { model: MODEL, messages, tools: [ECHO] };
  const { choices } = await openai(at, apiKey).chat.completions.create(body, { headers });
  return choices[0]?.message ?? assert.fail("there is an answer");
}

/** A conversation that waits for the result of its tool, which node `at` has asked for. */
async function waiting(at: number, words: string, apiKey = API_KEY): Promise<Messages> {
  const messages = [user(`${words}: use the tool`)];
  const message = await chat(at, messages, { apiKey });
  const call = message.tool_calls?.[0] ?? assert.fail("it calls its tool");
  return [...messages, message, { role: "tool", tool_call_id: call.id, content: `${words} result` }];
}

/** A streamed answer, as it comes. */
function ask(at: number, messages: Messages, headers: Record<string, string> = {}): Exchange {
  const body = JSON.stringify({ model: MODEL, messages, tools: [ECHO], stream: true });
  return new Exchange(node(at).running.url, body, { apiKey: API_KEY, headers });
}

/** What the stream of an answer says, at another node. */
async function eventsOf(answer: Exchange, at: number): Promise<Exchange> {
  const path = `/v1/streams/${await answer.streamId()}/events`;
  return new Exchange(node(at).running.url, undefined, { apiKey: API_KEY, method: "GET", path });
}

async function textOf(answer: Exchange): Promise<string> {
  const { text, isWhole, body } = await answer.reply();
  assert.ok(isWhole, body);
  return text;
}

async function streams(): Promise<number> {
  const [row] = await asked(url, "SELECT count(*) AS streams FROM holdfast.streams");
  return Number(row?.["streams"]);
}

test("a tool's result that arrives at another node continues the turn there", async () => {
  const before = await streams();
  const messages = await waiting(0, "moved");
  assert.equal((await chat(1, messages)).content, 'The tool said "moved result".');
  assert.equal(provider.calls("moved result"), 1);
  assert.equal(await streams(), before + 1, "it is the same stream");
  const next = await chat(2, [
    ...messages,
    { role: "assistant", content: 'The tool said "moved result".' },
    user("moved on"),
  ]);
  assert.equal(next.content, COUNTED);
});

test("the node is killed between a tool's call and its result: another one goes on", async () => {
  const messages = await waiting(0, "killed");
  await without(0, async () => {
    assert.equal((await chat(1, messages)).content, 'The tool said "killed result".');
  });
  assert.equal(provider.calls("killed"), 2, "one call for each step");
});

test("the same result at three nodes at once is taken once, and all have the answer", async () => {
  for (let round = 0; round < ROUNDS; round++) {
    const words = `thrice ${round}`;
    const before = await streams();
    const messages = await waiting(round % 3, words);
    provider.hold();
    const answers = [0, 1, 2].map((at) => ask(at, messages));
    for (const answer of answers) await answer.until("The tool ");
    provider.release();
    for (const answer of answers) assert.equal(await textOf(answer), `The tool said "${words} result".`);
    assert.equal(provider.calls(`${words} result`), 1);
    assert.equal(await streams(), before + 1);
  }
});

test("a retry at another node gets the answer that was given, and the one that is under way", async () => {
  const headers = { "idempotency-key": randomUUID() };
  const messages = [user("retried")];
  const before = await streams();
  provider.hold();
  const first = ask(0, messages, headers);
  await first.until("4 5 ");
  const second = ask(1, messages, headers);
  await second.until("4 5 ");
  provider.release();
  for (const answer of [first, second, ask(2, messages, headers)])
    assert.equal(await textOf(answer), COUNTED);
  assert.equal(provider.calls("retried"), 1);
  assert.equal(await streams(), before + 1);
});

test("two nodes that get a request with the same Idempotency-Key at once make one stream of it", async () => {
  const headers = { "idempotency-key": randomUUID() };
  const before = await streams();
  const answers = await Promise.all([0, 1, 2].map((at) => chat(at, [user("at once")], { headers })));
  for (const { content } of answers) assert.equal(content, COUNTED);
  assert.equal(provider.calls("at once"), 1);
  assert.equal(await streams(), before + 1);
});

test("the rest of an answer is read at another node, and goes on there when its own is killed", async () => {
  provider.hold();
  const first = ask(0, [user("read elsewhere")]);
  await first.until("4 5 ");
  const rest = await eventsOf(first, 1);
  await rest.until("4 5 ");
  await without(0, async () => {
    provider.release();
    assert.equal(await textOf(rest), COUNTED);
  });
  assert.equal(await textOf(await eventsOf(first, 2)), COUNTED);
});

test("a node that slept for longer than its lease loses its sessions, and what it says then changes nothing", async () => {
  const messages = await waiting(0, "slept");
  provider.hold();
  const first = ask(0, messages);
  await first.until("The tool ");
  const asleep = node(0).sleep(2 * LEASE_MS);
  const rest = await eventsOf(first, 1);
  await rest.until("The tool ");
  await asleep;
  provider.release();
  const whole = 'The tool said "slept result".';
  assert.equal(await textOf(rest), whole);
  assert.equal(await textOf(first), whole, "the reader at the node that slept goes on");
  assert.ok(provider.calls("slept result") <= 2, "a second generation at most");
});

test("a response that is asked for by its id is found at every node, under way and complete", async () => {
  provider.hold();
  const begun = await openai(0).responses.create({ model: MODEL, input: "by id", background: true });
  assert.equal((await openai(1).responses.retrieve(begun.id)).status, "in_progress");
  provider.release();
  let found = await openai(2).responses.retrieve(begun.id);
  while (found.status === "in_progress" || found.status === "queued")
    found = await openai(2).responses.retrieve(begun.id);
  assert.equal(found.output_text, COUNTED);
  const next = await openai(1).responses.create({
    model: MODEL,
    input: "by id, next",
    previous_response_id: begun.id,
  });
  assert.equal(next.output_text, COUNTED);
  // The conversation that the server keeps was read at a node that had no part in it.
  const told = provider.told("by id, next").join("\n");
  assert.match(told, /^user: .*by id.*\nassistant: .*\nuser: .*by id, next/m);
  assert.ok(told.includes(COUNTED.trim()), told);
});

test("a response in the background goes on at another node when its own is killed, though no client asks", async () => {
  provider.hold();
  const begun = await openai(0).responses.create({ model: MODEL, input: "unattended", background: true });
  while (provider.calls("unattended") === 0) await new Promise((resolve) => setTimeout(resolve, 20));
  await without(0, async () => {
    provider.release();
    while (provider.calls("unattended") === 1) await new Promise((resolve) => setTimeout(resolve, 20));
    let found = await openai(1).responses.retrieve(begun.id);
    while (found.status === "in_progress") found = await openai(1).responses.retrieve(begun.id);
    assert.equal(found.output_text, COUNTED);
  });
});

test("E8: a rate holds over all nodes", async () => {
  const apiKey = await node(0).newKey("--principal", "limited", "--rate", "5");
  const statuses: number[] = [];
  for (let at = 0; at < 9; at++) {
    const body = JSON.stringify({ model: MODEL, messages: [user(`limited ${at}`)] });
    statuses.push((await new Exchange(node(at % 3).running.url, body, { apiKey }).json()).status);
  }
  assert.deepEqual(statuses, [200, 200, 200, 200, 200, 429, 429, 429, 429]);
});

test("E8: a session that waits beyond its API key's limit ends the one that has waited longest, at another node", async () => {
  const apiKey = await node(0).newKey("--principal", "patient", "--parked", "1");
  const before = await streams();
  await waiting(0, "longest", apiKey);
  const messages = await waiting(1, "shorter", apiKey);
  const ends = async (): Promise<readonly unknown[]> => {
    const rows = await asked(url, `SELECT end_reason FROM holdfast.streams ORDER BY id OFFSET ${before}`);
    return rows.map((row) => row["end_reason"] !== null);
  };
  while ((await ends())[0] !== true) await sleep(20);
  assert.deepEqual(await ends(), [true, false], "only the first one has ended");
  assert.equal((await chat(2, messages, { apiKey })).content, 'The tool said "shorter result".');
});

/** The node that runs the youngest stream is killed; it stands again at the end of the test. */
async function killRunning(t: TestContext): Promise<void> {
  const [row] = await asked(url, "SELECT host_id FROM holdfast.streams ORDER BY created_ms DESC LIMIT 1");
  const running = nodes.find(({ hostId }) => hostId === row?.["host_id"]) ?? assert.fail("a node runs it");
  t.after(() => running.start());
  await running.kill();
}

/** Each connection goes to the next node. */
async function behindProxy(t: TestContext): Promise<string> {
  const proxy = await openNetwork();
  proxy.targetPorts = nodes.map(({ port }) => port);
  t.after(() => proxy.close());
  return `http://127.0.0.1:${proxy.port}/v1`;
}

test("the openai SDK over three nodes: its tool runs once, and the node dies before the result is there", async (t) => {
  const client = new OpenAI({ baseURL: await behindProxy(t), apiKey: API_KEY });
  let runs = 0;
  const echo = {
    type: "function" as const,
    function: {
      name: "echo",
      description: "says it back",
      parameters: { type: "object", properties: { text: { type: "string" } } },
      parse: (input: string) => z.object({ text: z.string() }).parse(JSON.parse(input)),
      function: async () => {
        runs++;
        await killRunning(t);
        return "openai result";
      },
    },
  };
  const messages = [user("openai: use the tool")];
  const runner = client.chat.completions.runTools({
    model: MODEL,
    messages,
    tools: [echo],
    stream: true,
  });
  assert.equal(await runner.finalContent(), 'The tool said "openai result".');
  assert.deepEqual([runs, provider.calls("openai: use"), provider.calls("openai result")], [1, 1, 1]);
});

test("the AI SDK over three nodes: its tool runs once, and the node dies before the result is there", async (t) => {
  const client = createOpenAICompatible({ name: "gw", baseURL: await behindProxy(t), apiKey: API_KEY });
  let runs = 0;
  const echo = tool({
    inputSchema: z.object({ text: z.string() }),
    async execute() {
      runs++;
      await killRunning(t);
      return "ai-sdk result";
    },
  });
  const { text } = streamText({
    model: client(MODEL),
    tools: { echo },
    stopWhen: isStepCount(3),
    prompt: "ai-sdk: use the tool",
  });
  assert.equal(await text, 'The tool said "ai-sdk result".');
  assert.deepEqual([runs, provider.calls("ai-sdk: use"), provider.calls("ai-sdk result")], [1, 1, 1]);
});

test("OpenCode over three nodes: its tool runs once, and the node dies while it runs", async (t) => {
  const binary = await binaryFor(t);
  if (binary === undefined) return;
  const home = mkdtempSync(join(tmpdir(), "holdfast-nodes-opencode-"));
  t.after(() => rmSync(home, { recursive: true, force: true }));
  const opencode = new Opencode({
    binary,
    home,
    baseURL: await behindProxy(t),
    apiKey: API_KEY,
    model: MODEL,
  });
  const made = join(opencode.project, "made.txt");
  const command = "echo made >> made.txt; until [ -e go ]; do sleep 0.1; done; echo opencode result";
  provider.command = JSON.stringify({ command, description: "Makes the file" });
  const run = opencode.run("opencode: use the tool");
  const ended = run.then(({ stderr }) => assert.fail(`it ended too early: ${stderr}`));
  while (!existsSync(made)) await Promise.race([sleep(20), ended]);
  await killRunning(t);
  writeFileSync(join(opencode.project, "go"), "");
  const { code, stdout, stderr } = await run;
  assert.equal(code, 0, stderr);
  assert.match(stdout, /The tool said .*opencode result/);
  assert.equal(readFileSync(made, "utf8"), "made\n");
  assert.equal(provider.calls("opencode result"), 1);
});
