import assert from "node:assert/strict";
import { test } from "node:test";
import { DEFAULTS } from "../../src/core/sender.ts";
import type { ClientFrame, ServerFrame } from "../../src/protocol/frames.ts";
import { memoryTransport, type Accept, type Handler } from "../../src/transport/index.ts";
import { transportConformance } from "../conformance/transport.ts";
import { SimNetwork, SimProcess, World } from "../simulation/world/index.ts";

const principalOf = (credentials: string | undefined): string | undefined => credentials;
/** One turn of the event loop: every microtask of the memory transport is done by then. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

transportConformance("the memory transport", (accept) => {
  const transport = memoryTransport(accept, { principalOf });
  return {
    connect: transport.connect,
    settle: turn,
    cut() {
      for (const connection of transport.connections) connection.cut();
    },
    congest() {},
  };
});

for (const codec of [false, true]) {
  transportConformance(`the simulated network ${codec ? "with" : "without"} the codec`, (accept) => {
    const world = new World(1);
    const network = new SimNetwork(world, { codec });
    network.listen("server", new SimProcess(world, "server"), accept);
    return {
      connect: network.connectFrom(new SimProcess(world, "client"), () => "server"),
      async settle() {
        await world.run();
      },
      cut() {
        for (const connection of network.connections) connection.cut();
      },
      congest() {
        for (const connection of network.connections) {
          connection.slow("client", 100);
          connection.slow("server", 100);
        }
      },
    };
  });
}

const META = { idempotencyKey: "k", streamKey: new Uint8Array(32), credentials: "alice" };

function chunk(seqno: number, body = new Uint8Array(0)): ClientFrame {
  return { kind: "chunk", seqno, writerEpoch: 1, body };
}

/** A server that keeps what it receives, and answers each chunk with an ack. */
function ackingServer(seqnos: number[]): Accept {
  return (_meta, wire) => ({
    received(frame) {
      if (frame.kind !== "chunk") return;
      seqnos.push(frame.seqno);
      wire.write([{ kind: "ack", seqno: frame.seqno }]);
    },
    drained() {},
    closed() {},
  });
}

function ackReader(acks: number[]): Handler<ServerFrame> {
  return {
    received(frame) {
      if (frame.kind === "ack") acks.push(frame.seqno);
    },
    drained() {},
    closed() {},
  };
}

test("a frame can be made to arrive twice, in either direction", async () => {
  const seqnos: number[] = [];
  const acks: number[] = [];
  const transport = memoryTransport(ackingServer(seqnos), { principalOf });
  const wire = transport.connect(META, ackReader(acks));
  await turn();
  const [connection] = transport.connections;
  connection?.duplicateNext("to_server");
  wire.write([chunk(0), chunk(1)]);
  await turn();
  assert.deepEqual(seqnos, [0, 0, 1]);
  connection?.duplicateNext("to_client");
  wire.write([chunk(2)]);
  await turn();
  assert.deepEqual(acks, [0, 0, 1, 2, 2]);
});

test("what is under way is lost when its receiver cuts the connection, and the writer has nothing to wait for", async () => {
  const seqnos: number[] = [];
  const acks: number[] = [];
  const serve = ackingServer(seqnos);
  const transport = memoryTransport(
    (meta, wire) => {
      const handler = serve(meta, wire);
      const cut = (): void => {
        for (const connection of transport.connections) connection.cut();
      };
      return {
        ...handler,
        received(frame) {
          handler.received(frame);
          cut();
        },
      };
    },
    { principalOf },
  );
  const wire = transport.connect(META, ackReader(acks));
  wire.write([chunk(0), chunk(1)]);
  wire.write([chunk(2)]);
  await turn();
  assert.deepEqual(seqnos, [0]);
  assert.deepEqual(acks, []);
  assert.equal(wire.write([chunk(3)]), 0);
});

test("F2: what is below every sender's bound is not said to wait, and no drained follows; above it, one does", async () => {
  let drains = 0;
  const transport = memoryTransport(ackingServer([]), { principalOf });
  const wire = transport.connect(META, { ...ackReader([]), drained: () => drains++ });
  assert.equal(wire.write([chunk(0), chunk(1)]), 0);
  await turn();
  assert.equal(drains, 0);
  const body = new Uint8Array(DEFAULTS.pauseBytes);
  assert.ok(wire.write([chunk(2, body)]) > DEFAULTS.pauseBytes);
  await turn();
  assert.equal(drains, 1);
  wire.write([chunk(3)]);
  await turn();
  assert.equal(drains, 1, "it was said once");
});

test("a delay holds frames back by the given environment's clock and keeps their order when it changes", async () => {
  const world = new World(1);
  const process = new SimProcess(world, "both");
  const seqnos: number[] = [];
  const transport = memoryTransport(ackingServer(seqnos), { principalOf, environment: process.env });
  const wire = transport.connect(META, ackReader([]));
  await turn();
  const [connection] = transport.connections;
  connection?.delay(100);
  wire.write([chunk(0)]);
  connection?.delay(10);
  wire.write([chunk(1)]);
  await world.run({ untilMs: 9 });
  assert.deepEqual(seqnos, []);
  await world.run({ untilMs: 100 });
  assert.deepEqual(seqnos, [0, 1]);
});

test("F2: a connection is forgotten when both sides know that it is over", async () => {
  const transport = memoryTransport(ackingServer([]), { principalOf });
  const ended = transport.connect(META, ackReader([]));
  transport.connect(META, ackReader([]));
  transport.connect({ ...META, credentials: undefined }, ackReader([]));
  await turn();
  assert.equal(transport.connections.size, 2);
  ended.end();
  await turn();
  assert.equal(transport.connections.size, 1);
  for (const connection of transport.connections) connection.cut();
  await turn();
  assert.equal(transport.connections.size, 0);
});
