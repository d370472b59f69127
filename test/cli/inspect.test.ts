import assert from "node:assert/strict";
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { Client, toolRunner } from "../../src/client/index.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { openSqliteStore } from "../../src/store/index.ts";
import { http2Connect } from "../../src/transport/node/http2-client.ts";
import { blocksRunBy } from "../docs/blocks.ts";
import { rest } from "../e2e/rig.ts";
import { Cli, type Running } from "./cli-process.ts";
import { echoTools, userMessage } from "./rehearsal-messages.ts";

const HOME_KEY: Uint8Array = new Uint8Array(32).fill(7);
const homeKeyText = Buffer.from(HOME_KEY).toString("base64url");
const canary = "canary-in-the-answer";

/** A line of the sample in docs/CLI.md: with any time, any number of an event, and the words of this test. */
function patternOf(line: string): RegExp {
  const escaped = line.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`).replaceAll("hello", canary);
  const anyTime = escaped.replace(/^\d\d:\d\d:\d\d\\\.\d{3}/, String.raw`\d\d:\d\d:\d\d\.\d{3}`);
  const anyEvent = anyTime.replace(/event \d+(?:-\d+)?/, String.raw`event \d+(?:-\d+)?`);
  return new RegExp(`^${anyEvent.replaceAll(/ +/g, " +")}`);
}

function clientOf(t: TestContext, server: Running): Client {
  const transport = http2Connect({ url: server.url });
  const client = new Client({
    connect: transport.connect,
    sealing: nodeSealing(),
    homeKey: HOME_KEY,
    credentials: () => Promise.resolve(server.apiKey),
    tools: toolRunner(echoTools("well heard", () => undefined)),
  });
  t.after(async () => {
    await client.close();
    transport.close();
  });
  return client;
}

/** A server with three streams: one that counted, one with a tool, one that is still open. */
async function withStreams(t: TestContext): Promise<{ cli: Cli; server: Running }> {
  const cli = new Cli(t);
  const server = await cli.serve();
  const client = clientOf(t, server);
  await rest(await client.open({ idempotencyKey: "counted", first: userMessage("count to 5") }));
  await rest(await client.open({ idempotencyKey: "tooled", first: userMessage(`tool ${canary}`, ["echo"]) }));
  const open = await client.open({
    idempotencyKey: "still-open",
    first: userMessage("count to 9 every 60000 ms"),
  });
  for await (const { eventId } of open.events) if (eventId === 2) break;
  writeFileSync(join(cli.home, "home-key"), `${homeKeyText}\n`);
  return { cli, server };
}

test("lists streams and shows their timelines beside a running server, and from a copy", async (t) => {
  const { cli, server } = await withStreams(t);
  const listed = await cli.run(["inspect", ...cli.inDataDir]);
  assert.equal(listed.code, 0, listed.stderr);
  assert.match(
    listed.stdout,
    /^PRINCIPAL +STREAM +LIFE +CHUNKS +EVENTS +WRITER +HOST +SIZE +LAST ACTIVITY +STAYS$/m,
  );
  assert.match(listed.stdout, /^default +counted +completed +1 +\d+ +1 +1 +\d.* ago +1 h 59 min$/m);
  assert.match(listed.stdout, /^default +still-open +open +1 +[23] /m);

  const inspectTool = ["inspect", "--stream", "tooled", "--home-key-file", "home-key"];
  const shown = await cli.run([...inspectTool, ...cli.inDataDir]);
  assert.equal(shown.code, 0, shown.stderr);
  const lines = shown.stdout.split("\n");
  const [sample] = blocksRunBy("test/cli/inspect.test.ts");
  const expected = (sample?.text ?? "").split("\n").map(patternOf);
  assert.ok(expected.length > 10);
  let from = 0;
  for (const pattern of expected) {
    const at = lines.findIndex((line, index) => index >= from && pattern.test(line));
    assert.notEqual(at, -1, `${String(pattern)} in order in\n${shown.stdout}`);
    from = at + 1;
  }

  const byKey = Buffer.from(nodeSealing().deriveStreamKey(HOME_KEY, "counted")).toString("base64url");
  const json = await cli.run([
    "inspect",
    "--stream",
    "counted",
    "--json",
    "--stream-key",
    byKey,
    ...cli.inDataDir,
  ]);
  const whole: unknown = JSON.parse(json.stdout);
  assert.ok(
    typeof whole === "object" && whole !== null && "timeline" in whole && Array.isArray(whole.timeline),
  );
  const texts = whole.timeline.filter(
    (entry: unknown) =>
      typeof entry === "object" && entry !== null && "kind" in entry && entry.kind === "text",
  );
  assert.deepEqual(
    texts.map((entry: { first: number; last: number; text: string }) => [entry.first, entry.text]),
    [[3, "1 2 3 4 5 "]],
  );
  assert.equal((await fetch(`${server.url}/ready`)).status, 200);

  server.signal("SIGTERM");
  await server.exit;
  const copy = join(cli.home, "copy");
  cpSync(cli.dataDir, copy, { recursive: true });
  const fromCopy = await cli.run([...inspectTool, "--data-dir", copy]);
  const timelineOf = (text: string): string => text.slice(text.indexOf("\n\n"));
  assert.equal(timelineOf(fromCopy.stdout), timelineOf(shown.stdout));

  // The store brings old streams together, and with that their commits are forgotten: times go, order stays.
  const store = await openSqliteStore(copy, { now: () => Date.now() });
  await store.streams.tidy(Number.MAX_SAFE_INTEGER);
  await store.close();
  const moved = await cli.run([...inspectTool, "--data-dir", copy]);
  const untimed = (text: string): string => timelineOf(text).replaceAll(/^[\d:.-]{12}/gm, "");
  assert.equal(untimed(moved.stdout), untimed(shown.stdout));
  assert.match(moved.stdout, /^--:--:--\.--- {2}> chunk 0/m);
  const sizes = await cli.run(["inspect", "--data-dir", copy]);
  assert.match(sizes.stdout, /^default +counted +completed +1 +\d+ +1 +1 +\d+ B/m);
});

test("E4: a wrong key says so and shows nothing; keys are never printed", async (t) => {
  const { cli, server } = await withStreams(t);
  const wrong = Buffer.alloc(32, 8).toString("base64url");
  const show = ["inspect", "--stream", "tooled", ...cli.inDataDir];
  const refused = await cli.run(show, { HOLDFAST_HOME_KEY: wrong });
  assert.deepEqual([refused.code, refused.stdout], [1, ""]);
  assert.match(refused.stderr, /^holdfast: HOLDFAST_HOME_KEY does not open stream "tooled", .*\n$/);
  const right = await cli.run([...show, "--json"], { HOLDFAST_HOME_KEY: homeKeyText });
  assert.ok(right.stdout.includes(canary));
  const sealed = await cli.run(show);
  assert.equal(sealed.code, 0);
  assert.match(sealed.stdout, /life +completed/);
  assert.match(
    sealed.stderr,
    /^Its content is sealed, and no home key on this machine opens it\. .*give --home-key-file/,
  );
  assert.ok(!sealed.stdout.includes(canary));
  for (const { stdout, stderr } of [refused, right, sealed]) {
    for (const key of [homeKeyText, wrong, server.apiKey]) assert.ok(!(stdout + stderr).includes(key));
  }
  const malformed = await cli.run([...show, "--stream-key", "short-secret"]);
  assert.equal(malformed.code, 2);
  assert.match(malformed.stderr, /^holdfast: --stream-key must be 32 bytes/);
  assert.ok(!malformed.stderr.includes("short-secret"));
  const absent = await cli.run(["inspect", "--stream", "none", ...cli.inDataDir]);
  assert.equal(absent.code, 1);
  assert.match(absent.stderr, /^holdfast: there is no stream "none" in this directory\n$/);
});

test("the home key that belongs to a stream is found where its gateway and its clients keep theirs", async (t) => {
  const cli = new Cli(t);
  const server = await cli.serve();
  const answer = await fetch(`${server.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${server.apiKey}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "rehearsal", messages: [{ role: "user", content: `say ${canary}` }] }),
  });
  assert.equal(answer.status, 200);
  await answer.arrayBuffer();
  const client = clientOf(t, server);
  await rest(await client.open({ idempotencyKey: "a-client's", first: userMessage(`say ${canary}`) }));
  const gateways = answer.headers.get("x-holdfast-stream") ?? "";
  const show = (stream: string, env = {}) => cli.run(["inspect", "--stream", stream, ...cli.inDataDir], env);
  // The gateway keeps its home key in a file of its own. A client keeps its own beside it, and none of them was named.
  const keys = join(cli.home, ".config/holdfast/keys");
  writeFileSync(join(keys, "a".repeat(32)), `${homeKeyText}\n`);
  writeFileSync(join(keys, "0".repeat(32)), "damaged\n");
  for (const stream of [gateways, "a-client's"]) {
    for (const env of [{}, { HOLDFAST_HOME_KEY: Buffer.alloc(32, 8).toString("base64url") }]) {
      const shown = await show(stream, env);
      assert.ok(shown.stdout.includes(canary), `${stream}: ${shown.stdout}${shown.stderr}`);
      assert.ok(!(shown.stdout + shown.stderr).includes(homeKeyText));
    }
  }
  rmSync(join(keys, "a".repeat(32)));
  const lost = await show("a-client's");
  assert.deepEqual([lost.code, lost.stdout.includes(canary)], [0, false]);
  assert.match(lost.stderr, /^Not tried: .*0{32}: it holds no home key$/m);
});

test("inspecting changes no byte of a directory that nobody serves", async (t) => {
  const { cli, server } = await withStreams(t);
  server.signal("SIGKILL");
  await server.exit;
  const files = (): Record<string, string> =>
    Object.fromEntries(
      readdirSync(cli.dataDir)
        .filter((name) => !name.endsWith("-shm"))
        .map((name) => [name, readFileSync(join(cli.dataDir, name), "latin1")]),
    );
  const before = files();
  const { code, stdout } = await cli.run(["inspect", ...cli.inDataDir]);
  assert.equal(code, 0);
  assert.match(stdout, /counted/);
  assert.deepEqual(files(), before);
});
