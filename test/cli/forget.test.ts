/** `holdfast forget`: a person's data goes, from tables, logs and files, and nobody else's does; asked of a running server, and without one. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { inherited } from "../inherited.ts";
import { forgetIn } from "../node/programs/killed-forget.ts";
import { Cli, type Running } from "./cli-process.ts";

const ALICE = "alice-the-canary";
const BOB = "bob-the-neighbour";
/** More than is kept beside an event: it becomes a blob. */
const LONG = "word ".repeat(60_000);

async function keyOf(cli: Cli, principal: string, ...flags: readonly string[]): Promise<string> {
  const { stdout } = await cli.run(["keys", "create", "--principal", principal, ...flags, ...cli.inDataDir]);
  return stdout.trim();
}

function post({ url }: Running, path: string, apiKey: string, body: object, key?: string): Promise<Response> {
  return fetch(`${url}/v1/${path}`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${apiKey}`,
      "content-type": "application/json",
      ...(key === undefined ? {} : { "idempotency-key": key }),
    },
    body: JSON.stringify({ model: "rehearsal", ...body }),
  });
}

const says = (content: string) => ({ messages: [{ role: "user", content }] });

/** Answers at every door, a conversation, blobs, names of retries. */
async function use(server: Running, apiKey: string, who: string): Promise<void> {
  const whole = async (asked: Promise<Response>): Promise<string> => {
    const response = await asked;
    const text = await response.text();
    assert.equal(response.status, 200, text);
    return text;
  };
  await whole(post(server, "chat/completions", apiKey, says(`say hello to ${who}`), `first-of-${who}`));
  await whole(
    post(server, "chat/completions", apiKey, {
      messages: [{ role: "system", content: LONG }, ...says("count to 2").messages],
    }),
  );
  await whole(post(server, "responses", apiKey, { input: `say ${who}`, store: true }));
  const conversation = await whole(post(server, "conversations", apiKey, { metadata: { of: who } }));
  assert.match(conversation, /conv_/);
  await whole(post(server, "messages", apiKey, { ...says("count to 2"), max_tokens: 9 }));
}

/** What a reader of the disk finds. */
function onDisk({ dataDir }: Pick<Cli, "dataDir">, text: string): readonly string[] {
  return readdirSync(dataDir).filter((name) => readFileSync(join(dataDir, name)).includes(text));
}

/** Rows of retries come and go with deliveries. */
const LASTING = "WHERE tab NOT IN ('gateway_readers', 'gateway_responses')";

/** How many rows each table has, and how many blobs there are. */
function contentOf({ dataDir }: Pick<Cli, "dataDir">, where = LASTING): Readonly<Record<string, unknown>> {
  const database = new DatabaseSync(join(dataDir, "holdfast.db"), { readOnly: true });
  try {
    const rows = database.prepare(`SELECT tab, count(*) AS n FROM rows ${where} GROUP BY tab`).all();
    const blobs = database.prepare("SELECT count(*) AS n FROM blobs").get()?.["n"];
    const parts = database.prepare("SELECT count(*) AS n FROM blob_parts").get()?.["n"];
    return { rows, blobs, parts };
  } finally {
    database.close();
  }
}

async function stop(server: Running): Promise<void> {
  server.signal("SIGTERM");
  await server.exit;
}

test("a running server forgets a person: streams, sessions, responses, blobs, retries, API keys; a neighbour keeps everything", async (t) => {
  const cli = new Cli(t);
  let server = await cli.serve();
  const bob = await keyOf(cli, BOB);
  await use(server, bob, BOB);
  // Rows behind the last answer are on the disk when the server has ended.
  await stop(server);
  const before = contentOf(cli);
  server = await cli.serve();
  const alice = await keyOf(cli, ALICE);
  await use(server, alice, ALICE);
  const running = await post(server, "chat/completions", alice, {
    ...says("count to 1000 every 100 ms"),
    stream: true,
  });
  const reader = running.body?.getReader();
  await reader?.read();
  assert.notDeepEqual(onDisk(cli, ALICE), [], "or nothing would show below");

  const counted = await cli.run(["forget", "--principal", ALICE, "--dry-run", ...cli.inDataDir]);
  assert.match(
    counted.stdout,
    /^alice-the-canary: 5 streams, \d+ blobs?, \d+ rows, 1 API key would be deleted\.\n$/,
  );
  assert.notDeepEqual(onDisk(cli, ALICE), []);
  const done = await cli.run(["forget", "--principal", ALICE, ...cli.inDataDir]);
  assert.equal(done.code, 0, done.stderr);
  assert.match(done.stdout, /^alice-the-canary: 5 streams, \d+ blobs?, \d+ rows, 1 API key are deleted\.\n$/);
  assert.match(done.stderr, /backups, log files/);
  let rest = "";
  for (;;) {
    const piece = await reader?.read().catch(() => undefined);
    if (piece?.value === undefined) break;
    rest += Buffer.from(piece.value).toString();
  }
  assert.doesNotMatch(rest, /"1000 "/, "what ran was stopped");
  assert.equal((await post(server, "chat/completions", alice, says("count to 2"))).status, 401);
  const kept = await post(server, "chat/completions", bob, says(`say hello to ${BOB}`), `first-of-${BOB}`);
  assert.equal(kept.headers.get("x-holdfast-answer"), "replayed");
  assert.match(await kept.text(), /hello to bob/);
  await stop(server);
  assert.deepEqual(onDisk(cli, ALICE), []);
  assert.deepEqual(onDisk(cli, alice.slice(3, 13)), [], "nor the id of the API key");
  assert.deepEqual(contentOf(cli), before);

  server = await cli.serve();
  const again = await post(server, "chat/completions", bob, says(`say hello to ${BOB}`), `first-of-${BOB}`);
  assert.equal(again.headers.get("x-holdfast-answer"), "replayed", "the log is whole");
  await again.text();
  await stop(server);
  const nothing = await cli.run(["forget", "--principal", ALICE, "--json", ...cli.inDataDir]);
  assert.deepEqual(JSON.parse(nothing.stdout), {
    principal: ALICE,
    isDryRun: false,
    streams: 0,
    blobs: 0,
    rows: 0,
    apiKeys: 0,
  });

  const offline = await cli.run(["forget", "--principal", BOB, "--keep-api-keys", ...cli.inDataDir]);
  assert.match(
    offline.stdout,
    /^bob-the-neighbour: 4 streams, \d+ blobs?, \d+ rows, 0 API keys are deleted\.\n$/,
  );
  assert.deepEqual(contentOf(cli, "WHERE tab LIKE 'gateway_%'"), { rows: [], blobs: 0, parts: 0 });
  const listed = await cli.run(["keys", "list", ...cli.inDataDir]);
  assert.match(listed.stdout, /bob-the-neighbour/);
});

const KILLED = join(import.meta.dirname, "../node/programs/killed-forget.ts");

test("killed in any of its changes, it is run again: everything of the person is gone, and nothing else", async (t) => {
  const cli = new Cli(t);
  let server = await cli.serve();
  const bob = await keyOf(cli, BOB, "--tokens-per-day", "100000");
  await use(server, bob, BOB);
  // Rows behind the last answer are on the disk when the server has ended.
  await stop(server);
  const before = contentOf(cli);
  server = await cli.serve();
  const alice = await keyOf(cli, ALICE, "--tokens-per-day", "100000");
  await use(server, alice, ALICE);
  await stop(server);
  const env = { ...inherited(), HOME: cli.home };
  const machine = { env, home: cli.home, platform: process.platform, now: Date.now };
  const copied = (name: string): string => {
    const dataDir = join(cli.home, name);
    cpSync(cli.dataDir, dataDir, { recursive: true });
    return dataDir;
  };
  let changes = 0;
  await forgetIn({
    dataDir: copied("whole"),
    principal: ALICE,
    machine,
    around: (change) => (changes++, change()),
  });
  assert.ok(changes > 10, String(changes));
  // Between rows, between streams and blobs, and in the shredding.
  const points = [0.2, 0.5, 0.8].map((part) => Math.floor(changes * part)).concat(changes - 2, changes - 1);
  for (const at of points) {
    const dataDir = copied(`killed-${at}`);
    const child = spawn(process.execPath, [KILLED, dataDir, ALICE, String(at)], { env, stdio: "inherit" });
    await once(child, "close");
    assert.equal(child.signalCode, "SIGKILL");
    await forgetIn({ dataDir, principal: ALICE, machine, around: (change) => change() });
    assert.deepEqual(onDisk({ dataDir }, ALICE), [], `killed in change ${at} of ${changes}`);
    assert.deepEqual(onDisk({ dataDir }, alice.slice(3, 13)), [], `the API key's id, killed in change ${at}`);
    assert.deepEqual(contentOf({ dataDir }), before, `killed in change ${at} of ${changes}`);
  }
});
