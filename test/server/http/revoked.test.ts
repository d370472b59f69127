/**
 * An API key that is revoked while its connections are open.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client } from "../../../src/client/index.ts";
import { HoldfastError } from "../../../src/protocol/index.ts";
import { nodeSealing } from "../../../src/sealing/node.ts";
import { fetchConnect } from "../../../src/transport/index.ts";
import { http2Connect } from "../../../src/transport/node/http2-client.ts";
import { ALICE_KEY, authenticate, BOB_KEY, eventually, startHttp } from "./rig.ts";

test("E7: a revoked API key ends the calls that it opened, and no others", async (t) => {
  const state: { revoked?: string; isDown?: true } = {};
  let refusedWhileDown = 0;
  const rig = await startHttp(t, {
    http: {
      recheckMs: 20,
      authenticate: async (apiKey) => {
        if (state.isDown === true) {
          refusedWhileDown++;
          throw new HoldfastError("unavailable", "the table cannot be read");
        }
        if (apiKey === state.revoked) throw new HoldfastError("unauthenticated", "no");
        return authenticate(apiKey);
      },
    },
  });
  const opened = async (transport: ReturnType<typeof fetchConnect>, apiKey: string) => {
    const client = new Client({
      connect: transport.connect,
      sealing: nodeSealing(),
      homeKey: new Uint8Array(32).fill(5),
      credentials: async () => apiKey,
    });
    t.after(async () => {
      await client.close();
      transport.close();
    });
    const stream = await client.open();
    await eventually(() => stream.status.state === "live", "it is attached");
    return stream;
  };
  const { url } = rig.http;
  const alice = await Promise.all([
    opened(http2Connect({ url }), ALICE_KEY),
    opened(fetchConnect({ url }), ALICE_KEY),
    opened(fetchConnect({ url, shared: true }), ALICE_KEY),
  ]);
  const bob = await opened(http2Connect({ url }), BOB_KEY);

  state.isDown = true;
  await eventually(() => refusedWhileDown >= 4, "both API keys were looked at twice");
  assert.deepEqual(
    alice.map(({ status }) => status.state),
    ["live", "live", "live"],
    "that nobody can say is no reason",
  );
  delete state.isDown;
  state.revoked = ALICE_KEY;
  for (const stream of alice) {
    assert.equal(await stream.ended, undefined, "it can be resumed with another API key");
    assert.equal(stream.status.failure?.code, "unauthenticated");
  }
  assert.equal(bob.status.state, "live");
});
