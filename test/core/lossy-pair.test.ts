/**
 * An outbox and an inbox with a bad world between them: cuts, lost and repeated frames, crashes of
 * either side, commits and syncs that come late.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import * as inbox from "../../src/core/inbox.ts";
import * as outbox from "../../src/core/outbox.ts";

/** What happens next. Numbers choose among what is possible at that moment. */
const happening = fc.oneof(
  { weight: 4, arbitrary: fc.constant("say" as const) },
  { weight: 4, arbitrary: fc.constant("sync" as const) },
  { weight: 6, arbitrary: fc.constant("deliver_chunk" as const) },
  { weight: 3, arbitrary: fc.constant("commit" as const) },
  { weight: 4, arbitrary: fc.constant("deliver_ack" as const) },
  { weight: 2, arbitrary: fc.constant("reconnect" as const) },
  { weight: 1, arbitrary: fc.constant("lose_ack" as const) },
  { weight: 1, arbitrary: fc.constant("repeat_chunk" as const) },
  { weight: 1, arbitrary: fc.constant("client_crash" as const) },
  { weight: 1, arbitrary: fc.constant("server_crash" as const) },
);
type Happening = typeof happening extends fc.Arbitrary<infer T> ? T : never;

/** Content is a serial number of the application's words, so a reused seqno would show. */
class Pair {
  client = outbox.init({ numbered: true, acked: 0, unackedBytes: [] });
  server = inbox.init(0, [], false);
  /** What the application said, by seqno, and how much of it the client's disk has. */
  said: number[] = [];
  onDisk = 0;
  ackedOnDisk = 0;
  serial = 0;
  /** What the server accepted, and how much of it its disk has. */
  accepted: number[] = [];
  durable = 0;
  toServer: { seqno: number; content: number }[] = [];
  toClient: number[] = [];
  connected = false;
  refused: string[] = [];

  say(): void {
    if (!outbox.hasRoom(this.client, 1)) return;
    this.said.push(this.serial++);
    this.feedClient({ kind: "submit", bytes: 1 });
  }

  sync(): void {
    this.onDisk = this.said.length;
    this.feedClient({ kind: "journaled", next: this.onDisk });
  }

  feedClient(input: outbox.Input): void {
    const [next, effects] = outbox.step(this.client, input);
    this.client = next;
    for (const effect of effects) {
      if (effect.kind === "fail") this.refused.push(effect.code);
      if (effect.kind === "release") this.ackedOnDisk = effect.below;
      if (effect.kind === "transmit") {
        assert.ok(effect.seqno < this.onDisk, "A5: sent before it was on disk");
        this.toServer.push({ seqno: effect.seqno, content: this.said[effect.seqno] ?? -1 });
      }
    }
  }

  feedServer(input: inbox.Input, content = -1): void {
    const [next, effects] = inbox.step(this.server, input);
    this.server = next;
    for (const effect of effects) {
      if (effect.kind === "accept") this.accepted.push(content);
      if (effect.kind === "refuse") this.refused.push(effect.code);
      if (effect.kind === "ack") {
        assert.ok(effect.seqno < this.durable, "A3: acked before it was durable");
        this.toClient.push(effect.seqno);
      }
    }
  }

  deliverChunk(): void {
    const frame = this.toServer.shift();
    if (frame === undefined) return;
    const { seqno, content } = frame;
    this.feedServer({ kind: "chunk", seqno, mac: macOf(content), bytes: 1, isClose: false }, content);
  }

  commit(): void {
    this.durable = this.accepted.length;
    this.feedServer({ kind: "committed", nextSeqno: this.durable });
  }

  cut(): void {
    this.toServer = [];
    this.toClient = [];
    if (this.connected) this.feedClient({ kind: "detached" });
    this.connected = false;
  }

  reconnect(): void {
    this.cut();
    this.connected = true;
    this.feedClient({ kind: "welcome", nextSeqno: this.server.durable, inline: 0 });
  }

  crashClient(): void {
    this.cut();
    this.said.length = this.onDisk;
    const unackedBytes = this.said.slice(this.ackedOnDisk).map(() => 1);
    this.client = outbox.init({ numbered: true, acked: this.ackedOnDisk, unackedBytes });
  }

  crashServer(): void {
    this.cut();
    this.accepted.length = this.durable;
    this.server = inbox.init(this.durable, this.accepted.slice(-256).map(macOf), false);
  }

  happen(what: Happening): void {
    if (what === "say") this.say();
    if (what === "sync") this.sync();
    if (what === "deliver_chunk") this.deliverChunk();
    if (what === "commit") this.commit();
    if (what === "reconnect") this.reconnect();
    if (what === "lose_ack") this.toClient.shift();
    if (what === "repeat_chunk" && this.toServer[0]) this.toServer.unshift(this.toServer[0]);
    if (what === "client_crash") this.crashClient();
    if (what === "server_crash") this.crashServer();
    if (what === "deliver_ack") {
      const seqno = this.toClient.shift();
      if (seqno !== undefined) this.feedClient({ kind: "ack", nextSeqno: seqno + 1 });
    }
  }
}

function macOf(content: number): Uint8Array {
  return Uint8Array.of(content & 255, content >> 8);
}

test("A1, A6: whatever is lost, repeated or crashes, the server has a prefix of what was said, and in the end all of it", () => {
  fc.assert(
    fc.property(fc.array(happening, { maxLength: 150 }), (happenings) => {
      const pair = new Pair();
      for (const what of happenings) {
        pair.happen(what);
        assert.deepEqual(pair.accepted, pair.said.slice(0, pair.accepted.length));
        assert.ok(pair.client.acked <= pair.durable, "A3: the client believes more than is durable");
        assert.deepEqual(pair.refused, []);
      }
      pair.sync();
      pair.reconnect();
      while (pair.toServer.length > 0) pair.deliverChunk();
      pair.commit();
      for (const seqno of pair.toClient) pair.feedClient({ kind: "ack", nextSeqno: seqno + 1 });
      assert.deepEqual(pair.accepted, pair.said);
      assert.equal(pair.client.acked, pair.said.length);
    }),
    { numRuns: 500 },
  );
});
