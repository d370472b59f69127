/**
 * A client that seals as browsers do: every key derivation, seal and opening is a promise.
 *
 * The simulator seals synchronously, so what an asynchronous sealer can do to the order of journal
 * records is shown here: nothing.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { memoryJournalStore } from "../../src/client/index.ts";
import { webSealing } from "../../src/sealing/index.ts";
import type { Application } from "../../src/server/index.ts";
import { bytes, ids, rest, Rig, text, turn, upTo, words } from "./rig.ts";

/** Repeats what it hears, and ends when the client has said everything. */
const repeating: Application = async (stream) => {
  let done = 0;
  for await (const _ of stream.past()) done++;
  for await (const input of stream.inputs) {
    if (input.kind === "close") break;
    if (input.kind === "chunk" && input.seqno >= done) await stream.emit(input.body);
    await turn();
  }
  await stream.end(bytes("end"));
};

test("A1, B4: over cuts everything said arrives once and in order under asynchronous sealing", async (t) => {
  const rig = await Rig.start(t, repeating);
  const client = rig.client({ sealing: webSealing() });
  const stream = await client.open({ first: bytes("0") });
  for (let at = 1; at <= 20; at++) {
    void stream.send(bytes(String(at)));
    if (at % 5 === 0) {
      await turn();
      rig.cut();
    }
  }
  void stream.close();
  const events = await rest(stream);
  assert.deepEqual(ids(events), upTo(22));
  assert.deepEqual(words(events), [...Array.from({ length: 21 }, (_, at) => String(at)), "end"]);
});

test("A5: a journal written under asynchronous sealing is read back by the next life of the client", async (t) => {
  const rig = await Rig.start(t, repeating);
  const journals = memoryJournalStore();
  const first = rig.process({ sealing: webSealing(), journals });
  const stream = await first.client.open({ first: bytes("0") });
  await stream.send(bytes("1"));
  await stream.events.next();
  first.kill();

  const second = rig.client({ sealing: webSealing(), journals });
  const { resumed } = await second.resumeAll();
  const [again] = resumed;
  assert.ok(again !== undefined);
  await again.send(bytes("2"));
  void again.close();
  const events = await rest(again);
  assert.deepEqual(
    events.map(({ body }) => text(body)),
    ["0", "1", "2", "end"],
  );
});
