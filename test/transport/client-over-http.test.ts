/**
 * The client and the server of production over each HTTP transport, with the network cut again and again.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client } from "../../src/client/index.ts";
import { retry } from "../../src/core/index.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { type Connect, fetchConnect } from "../../src/transport/index.ts";
import { http2Connect } from "../../src/transport/node/index.ts";
import { bytes, HOME_KEY, ids, rest, upTo, words } from "../e2e/rig.ts";
import { streamServer } from "./stream-server.ts";

const SOON = { ...retry.DEFAULTS, baseMs: 2, capMs: 10, budget: { burst: 10_000, refillMs: 1 } };

const transports: Readonly<Record<string, (url: string) => { connect: Connect; close(): void }>> = {
  "HTTP/2": (url) => http2Connect({ url }),
  fetch: (url) => fetchConnect({ url }),
  "shared fetch": (url) => fetchConnect({ url, shared: true }),
};

for (const [name, make] of Object.entries(transports)) {
  test(`A1, B1: ${name}: nothing is lost, doubled or reordered while the network is cut`, async (t) => {
    const rig = await streamServer(t);
    const transport = make(rig.url);
    const bugs: unknown[] = [];
    const client = new Client({
      connect: transport.connect,
      credentials: async () => "alice",
      sealing: nodeSealing(),
      homeKey: HOME_KEY,
      stream: { retry: SOON },
      onBug: (bug) => bugs.push(bug),
    });
    t.after(async () => {
      await client.close();
      transport.close();
      assert.deepEqual(bugs, []);
    });
    const said = Array.from({ length: 60 }, (_, at) => `word ${at}`);
    const streams = await Promise.all([0, 1, 2].map(() => client.open({ first: bytes(said[0] ?? "") })));
    const heard = Promise.all(streams.map((stream) => rest(stream)));
    for (const [at, word] of said.slice(1).entries()) {
      await Promise.all(streams.map((stream) => stream.send(bytes(word))));
      if (at % 6 === 5) rig.relay.cut();
    }
    await Promise.all(streams.map((stream) => stream.close()));
    for (const events of await heard) {
      assert.deepEqual(words(events), [...said, ""]);
      assert.deepEqual(ids(events), upTo(said.length + 1));
    }
  });
}
