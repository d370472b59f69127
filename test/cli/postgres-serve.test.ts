/** `holdfast serve --store postgres://...`: everything as with a data directory, over kills of the server and of PostgreSQL. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { z } from "zod";
import { upTo } from "../e2e/rig.ts";
import { asked, type PostgresServer, startPostgres } from "../store/postgres/server.ts";
import { Cli, isLetIn, type Running } from "./cli-process.ts";

let postgres: PostgresServer;
before(async () => {
  postgres = await startPostgres();
});
after(() => postgres.close());

const CANARY = "canary-of-a-password";

/** The server lets its superuser in without one; what matters is that it is nowhere to be seen. */
async function address(): Promise<string> {
  return (await postgres.newDatabase()).replace("holdfast@", `holdfast:${CANARY}@`);
}

function chat({ url, apiKey }: Running, content: string, more: object = {}, headers = {}): Promise<Response> {
  return fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json", ...headers },
    body: JSON.stringify({ model: "rehearsal", messages: [{ role: "user", content }], ...more }),
  });
}

/** Flags that name a config file with these settings. */
function configured(cli: Cli, settings: object): readonly string[] {
  const path = join(cli.home, "settings.json");
  writeFileSync(path, JSON.stringify(settings));
  return ["--config", path];
}

function counted(to: number): string {
  return upTo(to)
    .map((number) => `${number} `)
    .join("");
}

/** The text of a streamed answer. */
function textOf(body: string): string {
  return [...body.matchAll(/"content":"(?<text>[^"]*)"/g)].map(({ groups }) => groups?.["text"]).join("");
}

test("A3: gateway, chat and keys work on PostgreSQL, and a killed server finds everything again", async (t) => {
  const store = await address();
  const cli = new Cli(t);
  const env = { HOLDFAST_STORE: store };
  let server = await cli.serve(["--store", store]);
  assert.match(server.stdout(), /, data in PostgreSQL, /);
  const key = { "idempotency-key": "one" };
  const first = await chat(server, "count to 5", {}, key);
  assert.match(await first.text(), /"content":"1 2 3 4 5 "/);
  const made = await cli.run(["keys", "create", "--label", "laptop", ...cli.inDataDir], env);
  const { apiKey } = server;
  server.signal("SIGKILL");
  const killed = await server.exit;

  const withoutServer = await cli.run(["keys", "list", ...cli.inDataDir], env);
  assert.match(withoutServer.stdout, /laptop/);
  server = await cli.serve([], env);
  assert.equal(server.apiKey, apiKey);
  assert.equal(await isLetIn(server.url, made.stdout.trim()), true);
  const again = await chat(server, "count to 5", {}, key);
  assert.match(await again.text(), /"content":"1 2 3 4 5 "/);
  const told = await cli.run(["chat", "-p", "count to 3", "--no-tools", ...cli.inDataDir], env);
  assert.equal(told.stdout.trim(), "1 2 3", told.stderr);
  const [row] = await asked(store, "SELECT count(*) AS streams FROM holdfast.streams");
  assert.equal(Number(row?.["streams"]), 2, "the retry was answered from the first answer");

  const status = await cli.run(["store", "status", "--json"], env);
  assert.match(
    status.stdout,
    /"durability":"fsync","isPooled":false,"schema":.*"verdict":"current".*"streams":2,/,
  );
  const whole = await cli.run(["store", "check"], env);
  assert.deepEqual([whole.code, whole.stdout.trim()], [0, "The store is whole."]);
  await asked(
    store,
    "DELETE FROM holdfast.log WHERE ctid IN (SELECT ctid FROM holdfast.log WHERE log = 1 LIMIT 1)",
  );
  const damaged = await cli.run(["store", "check"], env);
  assert.equal(damaged.code, 3);
  assert.match(damaged.stdout, /stream \d+ (?:has a gap|stands at)/);
  const forgotten = await cli.run(
    ["forget", "--principal", "default", "--keep-api-keys", "--json", ...cli.inDataDir],
    env,
  );
  assert.match(forgotten.stdout, /"streams":2,/, forgotten.stderr);
  const [left] = await asked(
    store,
    `SELECT (SELECT count(*) FROM holdfast.streams) + (SELECT count(*) FROM holdfast.log) + (SELECT count(*) FROM holdfast.blobs)
      + (SELECT count(*) FROM holdfast.tombstones) + (SELECT count(*) FROM holdfast.rows WHERE tab LIKE 'gateway_%') AS left`,
  );
  assert.equal(Number(left?.["left"]), 0);
  const neighbour = new Cli(t);
  const early = await neighbour.run(["keys", "rotate-home", ...neighbour.inDataDir], env);
  assert.match(early.stderr, /1 node of this PostgreSQL would not know the new home key: stop all/);
  server.signal("SIGTERM");
  const ended = await server.exit;
  assert.equal(ended.code, 0, ended.stderr);
  const keys = join(cli.home, ".config/holdfast/keys");
  const before = readFileSync(join(keys, readdirSync(keys)[0] ?? ""), "utf8").trim();
  const rotated = await cli.run(["keys", "rotate-home", ...cli.inDataDir], env);
  assert.match(rotated.stderr, /copy that file to the other nodes/);
  const outdated = await neighbour.run(["serve", "--port", "0", "--no-line", ...neighbour.inDataDir], {
    ...env,
    HOLDFAST_HOME_KEY: before,
  });
  assert.equal(outdated.code, 1);
  assert.match(
    outdated.stderr,
    /another home key than the nodes that share this PostgreSQL.*Nothing was changed/,
  );
  const seen = [killed, ended, made, early, rotated, outdated, withoutServer, told, status, whole].map(
    (one) => one.stdout + one.stderr,
  );
  assert.ok(!seen.join("").includes(CANARY), "E4: the password is nowhere");
});

test("A3: a PostgreSQL that is killed under an answer is waited for, and the answer goes on where it was", async (t) => {
  const cli = new Cli(t);
  const server = await cli.serve(configured(cli, { store: await address(), storePatienceMs: 120_000 }));
  const response = await chat(server, "count to 60 every 40 ms", { stream: true });
  let body = "";
  let isKilled = false;
  const decoder = new TextDecoder();
  const reader = response.body?.getReader();
  for (;;) {
    const piece: unknown = (await reader?.read())?.value;
    if (!(piece instanceof Uint8Array)) break;
    body += decoder.decode(piece, { stream: true });
    if (isKilled || !textOf(body).includes("10 ")) continue;
    isKilled = true;
    await postgres.kill();
    await postgres.start();
  }
  assert.equal(textOf(body), counted(60));
  assert.match(body, /\[DONE\]/);
  assert.ok(isKilled);
  assert.doesNotMatch(server.stderr(), /the store failed/);
});

test("F5: a PostgreSQL that stays away fails the store; when it is back, everything acknowledged is there", async (t) => {
  const cli = new Cli(t);
  const store = await address();
  const server = await cli.serve(configured(cli, { store, storePatienceMs: 100, storePauseMs: 3_000 }));
  const key = { "idempotency-key": "one" };
  const before = await chat(server, "count to 5", {}, key);
  await before.text();
  await postgres.kill();
  const refused = await chat(server, "count to 3");
  assert.equal(refused.status, 503, await refused.text());
  const ready = async (): Promise<number> => (await fetch(`${server.url}/ready`)).status;
  // What refuses the request may be a read: the store fails by the next write, which a node makes to say that it lives.
  while ((await ready()) !== 503 || !server.stderr().includes("the store failed"));
  await postgres.start();
  while ((await ready()) !== 200 || !server.stderr().includes("the store is back"));
  const again = await chat(server, "count to 5", {}, key);
  assert.match(await again.text(), /"content":"1 2 3 4 5 "/);
  const [row] = await asked(store, "SELECT count(*) AS streams FROM holdfast.streams");
  assert.equal(Number(row?.["streams"]), 1, "the retry was answered from the first answer");
});

test("what cannot be used is refused in one line, without the password", async (t) => {
  const cli = new Cli(t);
  const serve = (store: string) =>
    cli.run(["serve", "--port", "0", "--no-line", ...cli.inDataDir, "--store", store]);
  const nobody = await serve(`postgres://u:${CANARY}@127.0.0.1:1/none?sslmode=disable`);
  assert.notEqual(nobody.code, 0);
  assert.match(nobody.stderr, /PostgreSQL at postgres:\/\/127\.0\.0\.1:1\/none cannot be reached/);
  const wrong = await serve(`mysql://u:${CANARY}@h/d`);
  assert.match(wrong.stderr, /--store must be an address such as postgres:\/\//);
  const inspected = await cli.run(["inspect"], { HOLDFAST_STORE: await address() });
  assert.match(inspected.stderr, /holdfast store status/);
  assert.ok(![nobody, wrong, inspected].some(({ stdout, stderr }) => (stdout + stderr).includes(CANARY)));
});

test("store status, migrate and check say what there is in a database, before and after its tables are made", async (t) => {
  const cli = new Cli(t);
  const env = { HOLDFAST_STORE: await address() };
  const store = (what: string) => cli.run(["store", what], env);
  assert.match((await store("status")).stdout, /^tables: version 0 of \d+, to be brought up to date/m);
  const none = await store("check");
  assert.match(none.stdout + none.stderr, /there are no tables of Holdfast in this database/);
  const migrated = await store("migrate");
  assert.equal(migrated.code, 0, migrated.stderr);
  assert.match(migrated.stdout, /^Brought the tables to version \d+\.$/m);
  assert.match((await store("status")).stdout, /^tables: version (\d+) of \1, up to date$/m);
  assert.equal((await store("check")).stdout.trim(), "The store is whole.");
});

const USED = z.object({ usage: z.object({ total_tokens: z.number() }) });
const LISTED = z.array(z.object({ label: z.string(), tokensToday: z.number() }));

test("tokens a day are counted over two nodes that spend at the same time, and each refuses what both have spent", async (t) => {
  const store = await address();
  const env = { HOLDFAST_STORE: store, HOLDFAST_HOME_KEY: Buffer.alloc(32, 5).toString("base64url") };
  const [here, there] = [new Cli(t), new Cli(t)];
  const nodes = [await here.serve([], env), await there.serve([], env)];
  const limit = ["--label", "limited", "--tokens-per-day", "200"];
  const { stdout } = await here.run(["keys", "create", ...limit, ...here.inDataDir], env);
  const apiKey = stdout.trim();
  // Each is asked while the others run, so that counts of both nodes meet.
  const answers = await Promise.all(
    upTo(8).map((at) => chat({ ...(nodes[at % 2] ?? assert.fail()), apiKey }, `count to 3 every ${at} ms`)),
  );
  let spent = 0;
  for (const answer of answers) spent += USED.parse(await answer.json()).usage.total_tokens;
  const tokensToday = async (): Promise<number | undefined> => {
    const listed = await there.run(["keys", "list", "--json", ...there.inDataDir], env);
    return LISTED.parse(JSON.parse(listed.stdout)).find(({ label }) => label === "limited")?.tokensToday;
  };
  assert.equal(await tokensToday(), spent);
  const last = await chat({ ...(nodes[0] ?? assert.fail()), apiKey }, "count to 200");
  spent += USED.parse(await last.json()).usage.total_tokens;
  assert.ok(spent >= 200, String(spent));
  for (const node of nodes) {
    const refused = await chat({ ...node, apiKey }, "count to 1");
    assert.equal(refused.status, 429, await refused.text());
  }
  assert.equal(await tokensToday(), spent);
});
