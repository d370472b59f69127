/**
 * The front door hands stalls to the application's log.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { openClient, stallLine, type StreamStallNews } from "../../src/client-node/index.ts";
import { startRig } from "./rig.ts";

/** The stall clock runs for 20 ms: what is not reported by then is never reported. */
const PATIENCE = { timeout: 30_000 };

test("F4: onStall of openClient hears of a stream that stands still, and of its end", PATIENCE, async (t) => {
  const rig = await startRig(t, async (stream) => {
    for await (const _ of stream.inputs);
  });
  const first = Promise.withResolvers<StreamStallNews>();
  const news: StreamStallNews[] = [];
  const client = await openClient({
    url: rig.url,
    persistence: false,
    stream: { heartbeatIntervalMs: 10, stall: { progressMs: 20 } },
    onStall: (one) => {
      news.push(one);
      first.resolve(one);
    },
  });
  const stream = await client.open({ first: Buffer.from("go") });
  const stalled = await first.promise;
  assert.deepEqual([stalled.kind, stalled.clock], ["stalled", "no_progress"]);
  assert.equal(stalled.idempotencyKey, stream.idempotencyKey);
  assert.match(stallLine(stalled), /^stall detected \(no_progress\): the answer stands still/);
  await client.close();
  assert.equal(
    news.filter(({ kind }) => kind === "stalled").length,
    news.filter(({ kind }) => kind !== "stalled").length,
  );
  assert.equal(client.stalls.no_progress.now, 0);
});
