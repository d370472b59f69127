/** How events leave: encoded once, one write each time, never more than the reader takes. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { test } from "node:test";
import { encodeClientFrame, encodeServerFrame, sharedEvent } from "../../src/protocol/frame-codec.ts";
import { decodeServerFrame } from "../../src/protocol/frame-codec.ts";
import type { ServerFrame } from "../../src/protocol/frames.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import { EnvelopeParser, envelopes } from "../../src/transport/connect/envelopes.ts";
import type { Accept, Wire } from "../../src/transport/index.ts";
import type { Exchange, ExchangeListener } from "../../src/transport/node/index.ts";
import { responseOutlet, ServerWire } from "../../src/transport/node/server-wire.ts";
import { httpRig } from "./http-rig.ts";
import { HEADERS } from "./raw-call.ts";
import { ATTACH } from "./split-rig.ts";

/** Keeps what is written, piece by piece. */
class Pieces implements Exchange {
  readonly httpVersion = 2;
  readonly isSecure = false;
  readonly method = "POST";
  readonly path = "/";
  readonly query = "";
  readonly host = "";
  readonly remoteAddress = "";
  readonly hasResponded = false;
  readonly written: Uint8Array[] = [];
  header(): undefined {}
  listen(_listener: ExchangeListener): void {}
  pause(): void {}
  resume(): void {}
  respond(): void {}
  write(bytes: Uint8Array): number {
    this.written.push(bytes);
    return 0;
  }
  end(): void {}
  destroy(): void {}
}

function framesIn(bytes: Uint8Array): ServerFrame[] {
  const parser = new EnvelopeParser(1_000_000);
  parser.push(bytes);
  const frames: ServerFrame[] = [];
  for (let next = parser.next(); next !== undefined; next = parser.next()) {
    frames.push(decodeServerFrame(next.message));
  }
  return frames;
}

test("an event is encoded once, however many readers it has", () => {
  const text = new TextEncoder().encode("hello");
  const event = sharedEvent(7, text, "completed");
  const bytes = encodeServerFrame(event);
  for (let reader = 0; reader < 16; reader++) assert.equal(encodeServerFrame(event), bytes);
  const plain = { kind: "event", eventId: 7, body: text, end: "completed" } as const;
  assert.deepEqual(bytes, encodeServerFrame(plain));
  assert.deepEqual(decodeServerFrame(bytes), plain);
  // The body lies in what was encoded: the event is not kept twice.
  assert.deepEqual(event.body, text);
  assert.equal(event.body.buffer, bytes.buffer);
});

test("all frames of a write leave as one piece", () => {
  const exchange = new Pieces();
  const wire = new ServerWire(responseOutlet(exchange, "proto"));
  const frames: ServerFrame[] = [
    { kind: "ack", seqno: 3 },
    { kind: "event", eventId: 1, body: new Uint8Array(100), end: undefined },
    { kind: "event", eventId: 2, body: new Uint8Array(), end: undefined },
  ];
  wire.write(frames);
  wire.write([]);
  assert.deepEqual(exchange.written.map(framesIn), [frames]);
});

test("F2: a reader that does not read makes its writer wait, and the others go on", async (t) => {
  const wires = new Map<string, Wire<ServerFrame>>();
  const drains: string[] = [];
  const accept: Accept = ({ idempotencyKey }, wire) => {
    wires.set(idempotencyKey, wire);
    return {
      received: () => undefined,
      drained: () => void drains.push(idempotencyKey),
      closed: () => undefined,
    };
  };
  const { url } = await httpRig(accept, t);
  const session = connectHttp2(url);
  t.after(() => session.destroy());
  const open = (key: string) => {
    const headers = { ...HEADERS, "x-idempotency-key": key };
    const stream = session.request({
      ...headers,
      ":method": "POST",
      ":path": "/holdfast.v1.StreamService/Stream",
    });
    stream.on("error", () => undefined);
    stream.write(envelopes([encodeClientFrame(ATTACH, key)]));
    return stream;
  };
  const stuck = open("stuck");
  const lively = open("lively");
  // A stream without a listener for data is one that nobody reads.
  await Promise.all([once(stuck, "response"), once(lively, "response")]);
  const event = (eventId: number): ServerFrame => ({
    kind: "event",
    eventId,
    body: new Uint8Array(LIMITS.inlineBytesMax),
    end: undefined,
  });
  let waitingBytes = 0;
  let sent = 0;
  const toStuck = wires.get("stuck") ?? assert.fail("not accepted");
  while (waitingBytes <= LIMITS.sendQueueBytesMax && sent < 1_000) {
    waitingBytes = toStuck.write([event(++sent)]);
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.ok(waitingBytes > LIMITS.sendQueueBytesMax, "what waits is told, so that the reader can be cut");

  let heardBytes = 0;
  lively.on("data", (piece: Uint8Array) => (heardBytes += piece.length));
  wires.get("lively")?.write([event(1)]);
  while (heardBytes < LIMITS.inlineBytesMax) await once(lively, "data");

  stuck.resume();
  while (!drains.includes("stuck")) await new Promise((resolve) => setImmediate(resolve));
});
