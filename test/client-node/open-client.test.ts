/**
 * The front door: switches, home keys over processes, damage, a full disk, and no secret beside the data.
 */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { lstatSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import {
  type ClientStream,
  type NodeClientOptions,
  openClient,
  STREAM_DEFAULTS,
  type StreamEvent,
} from "../../src/client-node/index.ts";
import { headKey, HEADS, recordKey, RECORDS } from "../../src/client-node/journal-rows.ts";
import { settle } from "../../src/client-node/options.ts";
import { streamPlans } from "../../src/client/stream-options.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import type { Application } from "../../src/server/index.ts";
import { openSharedTables } from "../../src/store/sqlite/shared-tables.ts";
import { type Rig, startRig } from "./rig.ts";
import { temporaryDirectory } from "./temporary.ts";

const HOME_KEY = new Uint8Array(Buffer.from("canary-home-key-canary-home-key!"));
const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);

/** Says back everything, and stays. */
const echo: Application = async (stream) => {
  for await (const input of stream.inputs) if (input.kind === "chunk") await stream.emit(input.body);
};

function optionsOf(rig: Rig): NodeClientOptions {
  return { url: rig.url, directory: rig.workspace, homeKey: HOME_KEY, keyring: false };
}

async function nextEvent(stream: ClientStream): Promise<StreamEvent> {
  for await (const event of stream.events) return event;
  throw new Error("the stream is over");
}

function filesIn(directory: string): readonly string[] {
  return readdirSync(directory, { recursive: true, encoding: "utf8" })
    .map((name) => join(directory, name))
    .filter((path) => lstatSync(path).isFile());
}

for (const [before, afterwards] of [
  ["http2", "fetch"],
  ["fetch", "http2"],
] as const) {
  test(`a stream begun over ${before} is resumed by the next client over ${afterwards}`, async (t) => {
    const rig = await startRig(t, echo);
    const first = await openClient({ ...optionsOf(rig), transport: before });
    const stream = await first.open({ first: utf8("hello") });
    assert.equal((await nextEvent(stream)).eventId, 1);
    await first.close();
    await using second = await openClient({ ...optionsOf(rig), transport: afterwards });
    const resumed = await second.resume(stream.idempotencyKey);
    assert.deepEqual((await nextEvent(resumed)).body, utf8("hello"));
    assert.equal(second.directory, join(rig.workspace, ".holdfast"));
  });
}

test("without persistence nothing is written, and a restart forgets", async (t) => {
  const rig = await startRig(t, echo);
  const options = { url: rig.url, directory: rig.workspace, persistence: false };
  const first = await openClient(options);
  assert.equal(first.directory, undefined);
  const stream = await first.open({ first: utf8("hello") });
  await stream.events.next();
  await first.close();
  assert.deepEqual(readdirSync(rig.workspace), []);
  await using second = await openClient(options);
  await assert.rejects(second.resume(stream.idempotencyKey), { code: "not_found" });
  assert.deepEqual((await second.resumeAll()).resumed, []);
});

test("persistence can be switched while a client runs: each stream's journal stays where it began", async (t) => {
  const rig = await startRig(t, echo);
  let persistence = true;
  const options = { ...optionsOf(rig), stream: () => ({ persistence }) };
  const first = await openClient(options);
  const kept = await first.open({ first: utf8("kept") });
  persistence = false;
  const passing = await first.open({ first: utf8("passing"), idempotencyKey: "passing" });
  await Promise.all([kept.events.next(), passing.events.next()]);
  passing.leave();
  await passing.ended;
  // In this process it can be resumed as any other; a second one of its name is refused.
  await assert.rejects(first.open({ idempotencyKey: "passing" }), /resume it/);
  persistence = true;
  const resumed = await first.resume("passing");
  assert.deepEqual((await nextEvent(resumed)).body, utf8("passing"));
  await first.close();

  await using second = await openClient(options);
  const report = await second.resumeAll();
  assert.deepEqual(
    report.resumed.map(({ idempotencyKey }) => idempotencyKey),
    [kept.idempotencyKey],
  );
  await assert.rejects(second.resume("passing"), { code: "not_found" });
});

test("without reliable streaming a broken connection is the end", async (t) => {
  const rig = await startRig(t, echo);
  await using client = await openClient({ ...optionsOf(rig), url: "http://127.0.0.1:1", reliable: false });
  const stream = await client.open({ first: utf8("hello") });
  await assert.rejects(stream.events.next());
  assert.equal(stream.status.state, "ended");
});

test("E1: eight processes that start at once in a new workspace have the same home key, told once", async (t) => {
  const rig = await startRig(t, echo);
  const children = Array.from({ length: 8 }, () => rig.start("home-key.ts", rig.workspace));
  const keys = await Promise.all(children.map((child) => child.word("key")));
  assert.equal(new Set(keys).size, 1);
  const notices = children.flatMap(({ said }) => said).filter((word) => String(word).startsWith("notice"));
  assert.equal(notices.length, 1);
  const files = filesIn(rig.configuration);
  assert.equal(files.length, 1);
  const again = rig.start("home-key.ts", rig.workspace);
  assert.equal(await again.word("key"), keys[0]);

  rmSync(files[0] ?? "");
  const lost = rig.start("home-key.ts", rig.workspace);
  await lost.exited;
  assert.match(lost.stderr, /the home key of .* is missing/);
  assert.deepEqual(filesIn(rig.configuration), []);
});

test("E1: a wrong home key is refused, and the database stays as it was", async (t) => {
  const rig = await startRig(t, echo);
  const first = await openClient(optionsOf(rig));
  const stream = await first.open({ first: utf8("hello") });
  await stream.send(utf8("again"));
  await first.close();
  const database = join(rig.workspace, ".holdfast", "client.db");
  const before = readFileSync(database);
  const homeKey = new Uint8Array(32).fill(9);
  await assert.rejects(openClient({ ...optionsOf(rig), homeKey }), {
    code: "stream_failed",
    message: /not the home key/,
  });
  assert.ok(before.equals(readFileSync(database)));
  await using second = await openClient(optionsOf(rig));
  assert.equal((await second.resumeAll()).resumed.length, 1);
});

test("C6: a damaged journal is kept and named, and the others are resumed", async (t) => {
  const rig = await startRig(t, echo);
  const first = await openClient(optionsOf(rig));
  const [damaged, whole] = [await first.open(), await first.open()];
  await Promise.all([damaged.send(utf8("a")), whole.send(utf8("b"))]);
  await first.close();
  const tables = await openSharedTables(join(rig.workspace, ".holdfast", "client.db"), { now: Date.now });
  assert.ok(await tables.delete(recordKey(damaged.idempotencyKey, 1)));
  await tables.close();

  await using second = await openClient(optionsOf(rig));
  const { resumed, kept } = await second.resumeAll();
  assert.deepEqual(
    resumed.map(({ idempotencyKey }) => idempotencyKey),
    [whole.idempotencyKey],
  );
  assert.deepEqual(
    kept.map(({ idempotencyKey }) => idempotencyKey),
    [damaged.idempotencyKey],
  );
  assert.match(kept[0]?.reason ?? "", /damaged .*; forget\(idempotencyKey\) removes it$/);
});

test("C6: a damaged journal can be forgotten, whichever of its rows is damaged, and its name is free again", async (t) => {
  const rig = await startRig(t, echo);
  const first = await openClient(optionsOf(rig));
  const names = ["a record", "the head", "the last row"].map((name) => name.replaceAll(" ", "-"));
  for (const idempotencyKey of names) await (await first.open({ idempotencyKey })).send(utf8("said"));
  await first.close();
  const tables = await openSharedTables(join(rig.workspace, ".holdfast", "client.db"), { now: Date.now });
  const [record = "", head = "", last = ""] = names;
  await tables.put(recordKey(record, 0), utf8("garbage"));
  await tables.put(headKey(head), utf8("garbage"));
  assert.ok(await tables.delete(recordKey(last, 1)));

  const second = await openClient(optionsOf(rig));
  assert.equal((await second.resumeAll()).kept.length, 3);
  for (const name of names) {
    await assert.rejects(second.resume(name), { code: "stream_failed" }, name);
    await second.forget(name);
    await assert.rejects(second.resume(name), { code: "not_found" }, name);
  }
  assert.deepEqual((await second.resumeAll()).kept, []);
  await second.close();
  for (const table of [HEADS, RECORDS]) {
    assert.deepEqual(await tables.list(table, "", { after: undefined, countMax: 10 }), []);
  }
  await tables.close();
});

test("E4: neither keys nor what was said lie in the data directory", async (t) => {
  const rig = await startRig(t, echo);
  const client = await openClient(optionsOf(rig));
  const stream = await client.open({ first: utf8("canary-chunk-canary") });
  await stream.events.next();
  stream.snapshot(1, utf8("canary-snapshot-canary"));
  await stream.send(utf8("canary-chunk-canary"));
  const streamKey = nodeSealing().deriveStreamKey(HOME_KEY, stream.idempotencyKey);
  const secrets = [HOME_KEY, streamKey].flatMap((secret) =>
    (["latin1", "hex", "base64", "base64url"] as const).map((form) => {
      const written = Buffer.from(secret).toString(form);
      return Buffer.from(written, form === "latin1" ? "latin1" : "ascii");
    }),
  );
  // With the database open, where much lies in its log. Copied by another process: to open and close a
  // database by other means would drop the locks that this one has on it.
  const copy = join(temporaryDirectory(t), "copy");
  execFileSync("cp", ["-rp", rig.workspace, copy]);
  const files = filesIn(copy);
  assert.ok(files.some((path) => path.endsWith("client.db-wal")));
  for (const path of files) {
    const content = readFileSync(path);
    for (const secret of [...secrets, Buffer.from("canary")]) assert.ok(!content.includes(secret), path);
    assert.equal(lstatSync(path).mode & 0o777, 0o600, path);
  }
  await client.close();
});

/** A small disk of its own; undefined where that is not allowed. */
function smallDisk(t: TestContext): string | undefined {
  const at = mkdtempSync(join(tmpdir(), "holdfast-disk-"));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", at], { stdio: "ignore" });
  } catch {
    rmSync(at, { recursive: true });
    return undefined;
  }
  t.after(() => {
    execFileSync("umount", ["-l", at]);
    rmSync(at, { recursive: true });
  });
  return at;
}

test("F5: a full disk stops the stream with what to do, and what was journaled is there later", async (t) => {
  const rig = await startRig(t, echo);
  const directory = smallDisk(t);
  if (directory === undefined) return t.diagnostic("only root can mount a small disk");
  const first = await openClient({ ...optionsOf(rig), directory });
  const stream = await first.open({ first: utf8("hello") });
  await stream.events.next();
  // The first chunk leaves while its record is on the way to the disk (A5). Behind the second one's record it is there.
  await stream.send(utf8("journaled"));
  const filler = join(directory, "filler");
  fill(filler);
  const said = stream.send(new Uint8Array(200_000));
  await assert.rejects(said);
  assert.equal(stream.status.failure?.code, "unavailable");
  assert.match(stream.status.failure?.message ?? "", /disk is full/);
  await first.close();

  rmSync(filler);
  await using second = await openClient({ ...optionsOf(rig), directory });
  const resumed = await second.resume(stream.idempotencyKey);
  assert.deepEqual((await nextEvent(resumed)).body, utf8("hello"));
});

function fill(path: string): void {
  const block = new Uint8Array(4_096);
  try {
    for (;;) writeFileSync(path, block, { flag: "a" });
  } catch {
    // Full.
  }
}

test("a client with a part of the retry options opens streams, and has the defaults for the rest", async (t) => {
  const rig = await startRig(t, echo);
  await using client = await openClient({ ...optionsOf(rig), stream: { retry: { baseMs: 5 } } });
  const stream = await client.open({ first: utf8("hello") });
  assert.deepEqual((await nextEvent(stream)).body, utf8("hello"));
});

test("wrong options are refused with what is right", () => {
  const refusals: readonly [object, RegExp][] = [
    [{ url: "ftp://x" }, /url must begin with http/],
    [{ url: "http://user:secret@x" }, /apiKey/],
    [{ scope: "galaxy" }, /scope must be one of workspace, application/],
    [{ transport: "pigeon" }, /transport must be one of http2, fetch/],
    [{ homeKey: new Uint8Array(31) }, /32 bytes/],
    [{ retryLookbackWindowMs: -1 }, /whole number/],
    [{ resumesMax: 0 }, /at least 1/],
    [{ persistence: "yes" }, /true or false/],
    [{ reliable: 1 }, /true or false/],
    [{ url: 5 }, /url must begin with http/],
    [{ apiKey: 5 }, /apiKey must be one word/],
    [{ directory: "" }, /directory must be a text/],
    [{ ca: new Uint8Array(1) }, /ca must be a text/],
    [{ connect: {} }, /connect must be a function/],
    [{ blobs: { put: () => undefined } }, /blobs must have a function get/],
    [{ tools: { run: () => undefined } }, /tools must have a function policy/],
    [{ tools: true }, /tools must be an object/],
    [{ onNotice: "log" }, /onNotice must be a function/],
    [{ onBug: null }, /onBug must be a function/],
    [{ onStall: "log" }, /onStall must be a function/],
    [{ stream: { retry: { baseMs: "5" } } }, /stream\.retry\.baseMs must be a number/],
  ];
  for (const [options, message] of refusals) {
    assert.throws(() => settle(options, {}), { code: "invalid_argument", message });
  }
  const wrong = { HOLDFAST_HOME_KEY: "c2hvcnQ" };
  assert.throws(() => settle({}, wrong), { message: /HOLDFAST_HOME_KEY must be 32 bytes/ });
});

function unexpected(bug: unknown): void {
  assert.fail(String(bug));
}

function optionsIn({ stream }: ReturnType<typeof settle>) {
  return streamPlans(stream, unexpected)().options;
}

test("the environment sets the switches, below every option", () => {
  const environment = {
    HOLDFAST_RELIABLE: "0",
    HOLDFAST_PERSISTENCE: "off",
    HOLDFAST_RETRY_LOOKBACK_WINDOW_MS: "60000",
  };
  const changed = { reliable: false, retryLookbackWindowMs: 60_000 };
  const set = settle({}, environment);
  assert.deepEqual([set.persistence, optionsIn(set)], [false, { ...STREAM_DEFAULTS, ...changed }]);
  const own = settle({ reliable: true, stream: { persistence: true } }, environment);
  assert.deepEqual([own.persistence, optionsIn(own).reliable], [true, true]);
  // A function may say otherwise later, so there is a place for journals.
  assert.equal(settle({ stream: () => ({}) }, environment).persistence, true);
  const empty = { HOLDFAST_RELIABLE: "", HOLDFAST_RETRY_LOOKBACK_WINDOW_MS: "" };
  assert.deepEqual(optionsIn(settle({}, empty)), STREAM_DEFAULTS);
  const wrong: readonly [Record<string, string>, RegExp][] = [
    [{ HOLDFAST_RELIABLE: "maybe" }, /^HOLDFAST_RELIABLE must be 1 or 0 .*, not "maybe"$/],
    [{ HOLDFAST_PERSISTENCE: "2" }, /^HOLDFAST_PERSISTENCE must be 1 or 0/],
    [{ HOLDFAST_RETRY_LOOKBACK_WINDOW_MS: "2h" }, /must be a whole number, at least 0, not "2h"$/],
  ];
  for (const [variables, message] of wrong) {
    assert.throws(() => settle({}, variables), { code: "invalid_argument", message });
  }
});

test("defaults come from the environment, and options win over it", async () => {
  const environment = {
    HOLDFAST_URL: "https://example.com/base",
    HOLDFAST_API_KEY: "from-the-environment",
    HOLDFAST_HOME_KEY: Buffer.from(HOME_KEY).toString("base64url"),
  };
  const plain = settle({}, {});
  assert.deepEqual(
    [plain.url, plain.scope, plain.persistence, plain.transport, plain.homeKey, optionsIn(plain)],
    ["http://127.0.0.1:4600", "workspace", true, "http2", undefined, STREAM_DEFAULTS],
  );
  assert.equal(await plain.credentials(), undefined);
  const set = settle({}, environment);
  assert.deepEqual([set.url, set.homeKey], ["https://example.com/base", HOME_KEY]);
  assert.equal(await set.credentials(), "from-the-environment");
  const given = settle(
    { url: "http://x", apiKey: async () => "asked", reliable: false, retryLookbackWindowMs: 5 },
    environment,
  );
  const changed = { reliable: false, retryLookbackWindowMs: 5 };
  assert.deepEqual([given.url, optionsIn(given)], ["http://x", { ...STREAM_DEFAULTS, ...changed }]);
  assert.equal(await given.credentials(), "asked");
});

test("a stream of another server is kept and named, and goes on at its own", async (t) => {
  const rig = await startRig(t, echo);
  const first = await openClient(optionsOf(rig));
  const { idempotencyKey } = await first.open({ first: utf8("hello") });
  await first.close();

  const elsewhere = await openClient({ ...optionsOf(rig), url: `${rig.url}/moved/` });
  const { resumed, kept } = await elsewhere.resumeAll();
  assert.deepEqual([resumed.length, kept.map((one) => one.idempotencyKey)], [0, [idempotencyKey]]);
  assert.ok(kept[0]?.reason.includes(rig.url), kept[0]?.reason);
  await elsewhere.close();

  await using again = await openClient({ ...optionsOf(rig), url: `${rig.url}/` });
  assert.equal((await again.resumeAll()).resumed.length, 1);
});

test("a stream of another server that has ended is cleared, not kept for ever", async (t) => {
  const rig = await startRig(t, async () => undefined);
  const first = await openClient(optionsOf(rig));
  const { idempotencyKey, ended } = await first.open({ first: utf8("hello") });
  assert.equal(await ended, "completed");
  await first.close();

  await using elsewhere = await openClient({ ...optionsOf(rig), url: `${rig.url}/moved/` });
  const { cleared, kept } = await elsewhere.resumeAll();
  assert.deepEqual([cleared, kept], [[idempotencyKey], []]);
  assert.deepEqual((await elsewhere.resumeAll()).cleared, []);
});
