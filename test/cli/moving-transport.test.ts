/**
 * The transport of a chat dials where its server is at that moment: real ports.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { movingTransport } from "../../src/cli/chat/moving-transport.ts";
import type { HoldfastError } from "../../src/protocol/errors.ts";
import { openPort, respondWith } from "../../src/transport/node/index.ts";
import { ATTACH } from "../transport/split-rig.ts";

const META = { idempotencyKey: "key", streamKey: new Uint8Array(32), credentials: "alice" };

/** Refuses every call. */
async function refusing(t: TestContext, onCall: () => void): Promise<string> {
  const port = await openPort({
    handle: (exchange) => {
      onCall();
      respondWith(exchange, 503, {}, "");
    },
  });
  t.after(() => port.close(0));
  return port.url;
}

test("each call goes to where the server is when it is made, and back", async (t) => {
  const called: string[] = [];
  const first = await refusing(t, () => void called.push("first"));
  const second = await refusing(t, () => void called.push("second"));
  let url = first;
  const transport = movingTransport(() => url);
  t.after(() => transport.close());
  const call = (): Promise<HoldfastError | undefined> =>
    new Promise((closed) => {
      const wire = transport.connect(META, {
        received: () => undefined,
        drained: () => undefined,
        closed,
      });
      wire.write([ATTACH]);
    });
  await call();
  url = second;
  await call();
  await assert.rejects(transport.blobs.get(META, "00".repeat(32), new AbortController().signal));
  url = first;
  await call();
  assert.deepEqual(called, ["first", "second", "second", "first"]);
});
