/** How a turn writes its log. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { BlobCache } from "../../src/agent/blobs.ts";
import { TurnIo } from "../../src/agent/turn-io.ts";
import { TurnHost } from "./turn-host.ts";

const MANY = 300;

test("F2: what is durable waits no more: behind any number of events there is room for the next one", async () => {
  const host = new TurnHost();
  let durable = 0;
  host.onEvent = (_, eventId) => void (durable = eventId);
  await host.run(async (stream) => {
    const io = new TurnIo(stream, new BlobCache(1_000), () => Promise.resolve());
    const say = (): Promise<void> => io.update({ case: "textDelta", value: { text: "word " } });
    for (let count = 0; count < MANY; count++) {
      await say();
      await io.untilDurable(io.head);
    }
    assert.equal(durable, MANY, "durable when it is waited for");
    await say();
    assert.equal(durable, MANY, "not waited for");
  });
});
