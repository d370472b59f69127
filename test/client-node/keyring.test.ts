/**
 * The system's keyring, whatever the system has: none, one that is silent, or a real one.
 */
import assert from "node:assert/strict";
import { createServer } from "node:net";
import { once } from "node:events";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { systemKeyring } from "../../src/client-node/keyring.ts";
import { temporaryDirectory } from "./temporary.ts";

const BUS = "DBUS_SESSION_BUS_ADDRESS";

function withBus(t: TestContext, address: string): void {
  const before = process.env[BUS];
  process.env[BUS] = address;
  t.after(() => {
    if (before === undefined) delete process.env[BUS];
    else process.env[BUS] = before;
  });
}

const onLinux = { skip: process.platform === "linux" ? false : "the Secret Service is Linux's" };

test("where there is no keyring service, that is the answer", onLinux, async (t) => {
  withBus(t, `unix:path=${join(temporaryDirectory(t), "no-such-bus")}`);
  const keyring = systemKeyring();
  assert.equal((await keyring.read("holdfast-test")).kind, "unavailable");
  assert.equal((await keyring.write("holdfast-test", "secret")).kind, "unavailable");
});

test("a keyring service that never answers is given up", onLinux, async (t) => {
  const path = join(temporaryDirectory(t), "silent-bus");
  const silent = createServer(() => undefined).listen(path);
  await once(silent, "listening");
  t.after(() => silent.close());
  withBus(t, `unix:path=${path}`);
  const answer = await systemKeyring(500).read("holdfast-test");
  assert.deepEqual(answer, { kind: "unavailable", reason: "it did not answer within 500 ms" });
});
