/** Two processes that want to start a server on one data directory: the second one waits, and says what for. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { claimDataDir } from "../../src/cli/data-dir-claim.ts";
import { ensureServer } from "../../src/cli/local-server.ts";
import { tryLock } from "../../src/client-node/presence.ts";
import { reachServer } from "../../src/cli/control-client.ts";
import { CONTROL_FILE, START_LOCK_FILE } from "../../src/node/data-dir.ts";

/** A data directory on which another process is about to start a server. */
function contested(t: TestContext) {
  const dataDir = mkdtempSync(join(tmpdir(), "holdfast-claim-"));
  t.after(() => rmSync(dataDir, { recursive: true, force: true }));
  const lock = tryLock(join(dataDir, START_LOCK_FILE)) ?? assert.fail("the lock is free");
  t.after(() => lock.release());
  return { dataDir, lock };
}

test("a server that waits for another start says so, and starts when that one has let go", async (t) => {
  const { dataDir, lock } = contested(t);
  const noted = Promise.withResolvers<string>();
  const claimed = claimDataDir({ dataDir, isBackground: false, note: noted.resolve });
  assert.match(await noted.promise, /^Waiting for another process that starts or stops a server here/);
  lock.release();
  (await claimed).release();
});

test("a chat that waits for another start says so", async (t) => {
  const { dataDir } = contested(t);
  // The notice ends the wait here: this test needs no server.
  const onNotice = (notice: string): never => {
    throw new Error(notice);
  };
  const options = {
    dataDir,
    config: undefined,
    env: {},
    cwd: dataDir,
    onStart: () => assert.fail(),
    onNotice,
  };
  await assert.rejects(
    ensureServer(options),
    /^Error: waiting for another process that starts a server here/,
  );
});

test("a program that got the port of a killed server and answers everything is no server that runs", async (t) => {
  const { dataDir, lock } = contested(t);
  lock.release();
  const program = createServer((_, response) => void response.end("{}"));
  program.listen(0, "127.0.0.1");
  await once(program, "listening");
  t.after(() => program.close());
  const address = program.address();
  assert.ok(address !== null && typeof address === "object");
  const url = `http://127.0.0.1:${address.port}`;
  const control = { url, token: "of the killed server", pid: 1, server: url };
  writeFileSync(join(dataDir, CONTROL_FILE), JSON.stringify(control));
  const claimed = await claimDataDir({ dataDir, isBackground: false, note: () => assert.fail() });
  claimed.release();
  assert.equal(await reachServer(dataDir), undefined);
});
