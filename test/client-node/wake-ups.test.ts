/**
 * A Node client notices that the network changed, and does not wait for its timer then.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { openClient } from "../../src/client-node/index.ts";
import { onNetworkChange, SYSTEM_NETWORK } from "../../src/client-node/wake-ups.ts";
import { until } from "../e2e/rig.ts";

test("F3: streams are woken when the machine's addresses change, or it slept, and not otherwise", async (t) => {
  let [addresses, nowMs, looks, wakes] = ["lo 127.0.0.1/8", 0, 0, 0];
  const network = {
    addresses: () => {
      looks++;
      return addresses;
    },
    now: () => (nowMs += 1),
    intervalMs: 1,
  };
  t.after(onNetworkChange(() => wakes++, network));
  const looked = async (): Promise<void> => {
    const before = looks;
    await until(() => looks >= before + 3, "a few looks");
  };
  await looked();
  assert.equal(wakes, 0);
  addresses = "lo 127.0.0.1/8,wlan0 10.0.0.5/24";
  await looked();
  assert.equal(wakes, 1);
  nowMs += 60_000;
  await looked();
  assert.equal(wakes, 2);
});

test("the machine's own addresses are read as text", () => {
  assert.match(SYSTEM_NETWORK.addresses(), /127\.0\.0\.1\/8/);
});

test("a client that is closed watches nothing, and one that is open keeps no process alive", async () => {
  const watching = (): number =>
    process.getActiveResourcesInfo().filter((resource) => resource === "Timeout").length;
  const before = watching();
  const client = await openClient({ url: "http://127.0.0.1:1", persistence: false, apiKey: "none" });
  await client.close();
  assert.equal(watching(), before);
});
