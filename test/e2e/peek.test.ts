/**
 * G7: a reader that peeks gets what the log has, and no turn runs for it.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryLog } from "../../src/store/index.ts";
import { kinds, OPEN, READ, ScriptedHost, settle } from "./scripted-host.ts";

test("G7: who peeks reads the log of a turn that does not run; any other attach makes it run, once", async (t) => {
  let runs = 0;
  const application = async (stream: { readonly inputs: AsyncIterable<unknown> }): Promise<void> => {
    runs++;
    for await (const _ of stream.inputs);
  };
  const rows = new MemoryLog();
  const before = await ScriptedHost.start(t, { application }, rows);
  await before.attach(OPEN);
  await settle();
  assert.equal(runs, 1);
  await before.server.shutdown();
  const host = await ScriptedHost.start(t, { application }, rows);
  const peeking = await host.attach({ ...READ, peek: true });
  await settle();
  assert.deepEqual([kinds(peeking.heard), runs], [["welcome"], 1]);
  await host.attach(READ);
  await host.attach(READ);
  await settle();
  assert.equal(runs, 2);
});

test("D3: an abort that comes with the attach of a stream that was never made leaves its turn nothing to do", async (t) => {
  const seen: boolean[] = [];
  const host = await ScriptedHost.start(t, {
    application: async (stream) => {
      seen.push(stream.signal.aborted);
    },
  });
  await host.attach({ ...OPEN, fresh: false, firstChunk: undefined, abort: true });
  await settle();
  assert.deepEqual(seen, [true]);
});
