import assert from "node:assert/strict";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "../../src/client/index.ts";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { frameOffset, readFrameHeader } from "../../src/store/sqlite/wal-frames.ts";
import { lookAtLog } from "../../src/store/sqlite/wal-look.ts";
import { http2Connect } from "../../src/transport/node/http2-client.ts";
import { rest } from "../e2e/rig.ts";
import { contentOf } from "../store/sqlite-fixtures.ts";
import { Cli, type Running } from "./cli-process.ts";
import { userMessage } from "./rehearsal-messages.ts";

const PAGE = 4096;
/** So that there are commits before the damage, and behind it. */
const COMMITS_MIN = 24;

const HOME_KEY: Uint8Array = new Uint8Array(32).fill(7);

function clientOf(t: TestContext, server: Running): Client {
  const transport = http2Connect({ url: server.url });
  const client = new Client({
    connect: transport.connect,
    sealing: nodeSealing(),
    homeKey: HOME_KEY,
    credentials: () => Promise.resolve(server.apiKey),
  });
  t.after(async () => {
    await client.close();
    transport.close();
  });
  return client;
}

/** Kills the server when its write-ahead log has enough commits. Stopped, it cannot move the log meanwhile. */
async function killWithLog(server: Running, log: string): Promise<void> {
  for (;;) {
    server.signal("SIGSTOP");
    const { commits } = lookAtLog(log);
    server.signal(commits >= COMMITS_MIN ? "SIGKILL" : "SIGCONT");
    if (commits >= COMMITS_MIN) break;
    await sleep(20);
  }
  await server.exit;
}

/** The header and a part of the page of the first frame behind all commits but the last six. */
function damage(log: string): number {
  const bytes = readFileSync(log);
  const frames = Array.from({ length: lookAtLog(log).endFrame }, (_, at) => at + 1);
  const marks = frames.filter((frame) => readFrameHeader(bytes.subarray(frameOffset(frame, PAGE))).mark > 0);
  const frame = 1 + (marks.at(-7) ?? 0);
  bytes.fill(0x55, frameOffset(frame, PAGE), frameOffset(frame, PAGE) + 600);
  writeFileSync(log, bytes);
  return frame;
}

test("A3: a server refuses a damaged log, the doctor salvages it, and a client with a newer cursor says so", async (t) => {
  const cli = new Cli(t);
  const server = await cli.serve();
  const log = join(cli.dataDir, "holdfast.db-wal");
  const counting = await clientOf(t, server).open({
    idempotencyKey: "counting",
    first: userMessage("count to 100000 every 5 ms"),
  });
  let seen = 0;
  const failed = (async () => {
    for await (const { eventId } of counting.events) seen = eventId;
  })().catch((error: unknown) => error);
  await killWithLog(server, log);
  const frame = damage(log);
  const before = contentOf(cli.dataDir);

  const refused = await cli.run(["serve", "--port", "0", ...cli.inDataDir]);
  assert.equal(refused.code, 1, refused.stderr);
  assert.match(
    refused.stderr,
    new RegExp(
      `is damaged: frame ${frame} .* commits lie there or behind it\\. Nothing was changed\\. .*holdfast\\.js doctor`,
    ),
  );
  const looked = await cli.run(["inspect", ...cli.inDataDir]);
  assert.deepEqual([looked.code, looked.stdout], [1, ""]);
  const checked = await cli.run(["doctor", ...cli.inDataDir]);
  assert.equal(checked.code, 3, checked.stderr);
  assert.match(checked.stdout, /--salvage .* keeps \d+ commits? .* and gives up \d+ commits?\.\n$/);
  assert.deepEqual(contentOf(cli.dataDir), before);

  const damagedLog = readFileSync(log);
  const salvaged = await cli.run(["doctor", "--salvage", ...cli.inDataDir]);
  assert.equal(salvaged.code, 4, salvaged.stderr);
  assert.match(salvaged.stdout, /^Gone: \d+ commits\. The newest one may never have been acknowledged\.$/m);
  assert.match(salvaged.stdout, /^ {2}stream counting of default: events \d+ to \d+$/m);
  const aside = readdirSync(cli.dataDir).filter((file) => file.startsWith("holdfast.db-wal.damaged-"));
  assert.equal(aside.length, 1);
  assert.deepEqual(readFileSync(join(cli.dataDir, aside[0] ?? "")), damagedLog);
  assert.deepEqual(
    (await cli.run(["doctor", "--json", ...cli.inDataDir])).stdout,
    '{"whole":true,"damage":null}\n',
  );

  const again = await cli.serve(["--port", new URL(server.url).port]);
  const error = await failed;
  assert.ok(error instanceof HoldfastError, String(error));
  assert.equal(error.code, "event_ahead");
  assert.match(error.message, new RegExp(`event ${seen} was never sent`));
  again.signal("SIGTERM");
  await again.exit;
});

test("the doctor finds a store whole, beside a running server and after it", async (t) => {
  const cli = new Cli(t);
  const server = await cli.serve();
  await rest(await clientOf(t, server).open({ idempotencyKey: "s", first: userMessage("count to 3") }));
  const beside = await cli.run(["doctor", ...cli.inDataDir]);
  assert.equal(beside.code, 0, beside.stderr);
  assert.match(beside.stdout, /holdfast\.db is whole: 1 stream\.\n$/);
  // A salvage takes the lock before it looks: what it saw without it, a server may have changed.
  const salvage = await cli.run(["doctor", "--salvage", ...cli.inDataDir]);
  assert.equal(salvage.code, 1, salvage.stdout);
  assert.match(salvage.stderr, /held by another process/);
  server.signal("SIGTERM");
  await server.exit;
  const before = contentOf(cli.dataDir);
  for (const flags of [[], ["--salvage"]]) {
    const { code, stdout } = await cli.run(["doctor", ...flags, ...cli.inDataDir]);
    assert.equal(code, 0);
    assert.match(stdout, /is whole: 1 stream\.\n$/);
  }
  assert.deepEqual(contentOf(cli.dataDir), before);
});

test("damage elsewhere is exit code 3, and no salvage is tried", async (t) => {
  const cli = new Cli(t);
  const server = await cli.serve();
  await rest(await clientOf(t, server).open({ idempotencyKey: "s", first: userMessage("count to 3") }));
  server.signal("SIGTERM");
  await server.exit;
  const path = join(cli.dataDir, "holdfast.db");
  const bytes = readFileSync(path);
  bytes.fill(0x5a, 2 * PAGE, 2 * PAGE + 200);
  writeFileSync(path, bytes);
  const before = contentOf(cli.dataDir);
  const checked = await cli.run(["doctor", ...cli.inDataDir]);
  assert.equal(checked.code, 3, checked.stderr);
  assert.match(checked.stdout, /is damaged/);
  const salvaged = await cli.run(["doctor", "--salvage", ...cli.inDataDir]);
  assert.equal(salvaged.code, 1);
  assert.match(salvaged.stderr, /no damage of the write-ahead log: there is nothing to salvage/);
  assert.deepEqual(contentOf(cli.dataDir), before);
  const nowhere = await cli.run(["doctor", "--data-dir", join(cli.home, "nowhere")]);
  assert.equal(nowhere.code, 2);
});
