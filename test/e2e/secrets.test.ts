/**
 * Canary secrets: what was said and the keys that seal it are planted, and searched for wherever
 * somebody might look: on the server's disk, in the client's journals, in errors, in printed objects.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import { Client, memoryJournalStore } from "../../src/client/index.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { createServer } from "../../src/server/index.ts";
import { MemoryLog, openLogStreamStore } from "../../src/store/index.ts";
import { memoryTransport } from "../../src/transport/index.ts";
import { bytes, rest } from "./rig.ts";

const SAID = "canary-said-by-the-client";
const ANSWERED = "canary-answered-by-the-server";
const KEPT = "canary-kept-in-a-snapshot";

test("E4: neither words nor keys are on the server's disk, in journals, in errors or in printed objects", async () => {
  const homeKey = new Uint8Array(32).map((_, at) => at * 7 + 1);
  const sealing = nodeSealing();
  const log = new MemoryLog({ durability: "fsync" });
  const server = createServer({
    store: await openLogStreamStore(log, { now: Date.now }),
    sealing,
    async application(stream) {
      await stream.emit(bytes(ANSWERED));
      for await (const input of stream.inputs) if (input.kind === "close") return;
    },
  });
  const network = memoryTransport(server.accept, { principalOf: () => "alice" });
  const journals = memoryJournalStore();
  const client = new Client({ connect: network.connect, sealing, homeKey, journals });
  const stream = await client.open({ first: bytes(SAID) });
  await stream.events.next();
  stream.snapshot(1, bytes(KEPT));
  await stream.send(bytes(SAID));
  const printed = inspect([client, stream, server, network], { depth: 20, showHidden: true });
  await stream.close();
  await rest(stream);
  await stream.ended;
  const refused = await client.resume(stream.idempotencyKey).then(
    () => "nothing",
    (error: unknown) => inspect(error, { depth: 20 }),
  );
  await server.shutdown();

  const streamKey = sealing.deriveStreamKey(homeKey, stream.idempotencyKey);
  const secrets = [bytes(SAID), bytes(ANSWERED), bytes(KEPT), homeKey, streamKey].map((one) =>
    Buffer.from(one),
  );
  const rows: Buffer[] = [];
  for await (const { record } of log.reopened().scan()) rows.push(Buffer.from(record));
  const records = (await journals.read(stream.idempotencyKey)).map((record) => Buffer.from(record));
  assert.ok(rows.length > 3 && records.length > 3, "there is something to search");
  for (const secret of secrets) {
    assert.ok(
      ![...rows, ...records].some((stored) => stored.includes(secret)),
      "a secret is stored in the open",
    );
    for (const shown of [
      secret.toString("latin1"),
      secret.toString("hex"),
      secret.toString("base64"),
      listOf(secret),
    ]) {
      assert.ok(!printed.includes(shown) && !refused.includes(shown), "a secret is shown");
    }
  }
});

/** As Node prints bytes. */
function listOf(secret: Buffer): string {
  return [...secret.subarray(0, 8)].join(", ");
}
