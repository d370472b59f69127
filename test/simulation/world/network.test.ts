import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { ClientFrame, ServerFrame } from "../../../src/protocol/frames.ts";
import type { Wire } from "../../../src/transport/transport.ts";
import { NETWORK_KINDS, type SimConnection, SimNetwork, SimProcess, World } from "./index.ts";

/** What one side of one connection has heard: frames by their number, then how it closed. */
interface Heard {
  readonly numbers: number[];
  closed: string | undefined;
  drained: number;
}

interface Dialed {
  readonly wire: Wire<ClientFrame>;
  readonly client: Heard;
}

/** A server that acks every chunk, and clients that write what they are told to. */
class Lab {
  readonly world: World;
  readonly network: SimNetwork;
  server: SimProcess;
  readonly client: SimProcess;
  /** One per accepted connection, ghosts included. */
  readonly accepted: { readonly heard: Heard; readonly wire: Wire<ServerFrame> }[] = [];

  constructor(seed = 1) {
    this.world = new World(seed);
    this.network = new SimNetwork(this.world, { codec: true });
    this.server = new SimProcess(this.world, "server");
    this.client = new SimProcess(this.world, "client");
    this.serve();
  }

  serve(): void {
    this.network.listen("server", this.server, (_meta, wire) => {
      const heard: Heard = { numbers: [], closed: undefined, drained: 0 };
      this.accepted.push({ heard, wire });
      return handler(heard, (frame: ClientFrame) => {
        if (frame.kind === "chunk") wire.write([{ kind: "ack", seqno: frame.seqno }]);
      });
    });
  }

  dial(authenticated = true): Dialed {
    const client: Heard = { numbers: [], closed: undefined, drained: 0 };
    const connect = this.network.connectFrom(this.client, () => "server");
    const meta = {
      idempotencyKey: "k",
      streamKey: new Uint8Array(32),
      credentials: authenticated ? "alice" : undefined,
    };
    return { wire: connect(meta, handler(client)), client };
  }

  /** The connection that was made last. */
  get connection(): SimConnection {
    const last = [...this.network.connections].at(-1);
    assert.ok(last !== undefined);
    return last;
  }

  heard(index = 0): Heard {
    const accepted = this.accepted[index];
    assert.ok(accepted !== undefined);
    return accepted.heard;
  }

  hits(kind: (typeof NETWORK_KINDS)[number]): number {
    return this.world.counters.of(kind);
  }
}

function handler<Frame extends ClientFrame | ServerFrame>(
  heard: Heard,
  react: (frame: Frame) => void = () => {},
) {
  return {
    received(frame: Frame): void {
      assert.equal(heard.closed, undefined);
      if (frame.kind === "chunk" || frame.kind === "ack") heard.numbers.push(frame.seqno);
      react(frame);
    },
    drained(): void {
      heard.drained++;
    },
    closed(reason: { readonly code: string } | undefined): void {
      assert.equal(heard.closed, undefined);
      heard.closed = reason?.code ?? "in order";
    },
  };
}

function chunk(seqno: number, bytes = 10): ClientFrame {
  return { kind: "chunk", seqno, writerEpoch: 1, body: new Uint8Array(bytes) };
}

const BEAT: ClientFrame = { kind: "heartbeat", runningExecIds: [] };

describe("the simulated network", () => {
  test("keeps the order of a direction, whatever the delays", async () => {
    for (let seed = 0; seed < 20; seed++) {
      const lab = new Lab(seed);
      Object.assign(lab.network.faults, { delayMsMax: 500, longDelay: 0.2 });
      const { wire, client } = lab.dial();
      const seqnos = Array.from({ length: 30 }, (_, i) => i);
      for (const seqno of seqnos) lab.world.enqueue(seqno * 10, () => wire.write([chunk(seqno)]));
      await lab.world.run();
      assert.deepEqual(lab.heard().numbers, seqnos);
      assert.deepEqual(client.numbers, seqnos);
    }
  });

  test("a frame that takes long holds up those behind it", async () => {
    const lab = new Lab();
    const { wire } = lab.dial();
    await lab.world.run();
    const sentMs = lab.world.nowMs;
    lab.network.faults.longDelay = 1;
    wire.write([chunk(0)]);
    lab.network.faults.longDelay = 0;
    wire.write([chunk(1)]);
    await lab.world.run({ stop: () => lab.heard().numbers.length > 0 });
    assert.ok(lab.world.nowMs - sentMs > 1_000, `${lab.world.nowMs - sentMs} ms`);
    await lab.world.run();
    assert.deepEqual(lab.heard().numbers, [0, 1]);
  });

  test("loses and repeats single frames on a connection that lives on", async () => {
    const lab = new Lab();
    const { wire, client } = lab.dial();
    lab.connection.loseNext("client");
    wire.write([chunk(0), chunk(1)]);
    lab.connection.duplicateNext("client");
    wire.write([chunk(2), chunk(3)]);
    await lab.world.run();
    assert.deepEqual(lab.heard().numbers, [1, 2, 2, 3]);
    assert.deepEqual(client.numbers, [1, 2, 2, 3]);
    assert.equal(client.closed, undefined);
  });

  test("B7: a lost last frame is one that only a heartbeat, or the end, follows", async () => {
    const lab = new Lab();
    const { wire } = lab.dial();
    lab.connection.loseNext("client");
    wire.write([chunk(0), chunk(1)]);
    assert.equal(lab.hits("net.lost_frame"), 1);
    assert.equal(lab.hits("net.lost_last_frame"), 0);
    lab.connection.loseNext("client");
    wire.write([chunk(2), BEAT]);
    assert.equal(lab.hits("net.lost_last_frame"), 1);
    lab.connection.loseNext("client");
    wire.write([chunk(3)]);
    wire.end();
    await lab.world.run();
    assert.equal(lab.hits("net.lost_last_frame"), 2);
  });

  test("a cut lets what is under way arrive until each side has heard of it, at different times", async () => {
    const lab = new Lab();
    const { wire, client } = lab.dial();
    await lab.world.run();
    wire.write([chunk(0)]);
    lab.connection.cut({ clientHearsMs: 0, serverHearsMs: 60_000 });
    wire.write([chunk(1)]);
    await lab.world.run({ untilMs: lab.world.nowMs + 1_000 });
    assert.equal(client.closed, "connection_lost");
    assert.deepEqual(lab.heard().numbers, [0]);
    assert.equal(lab.heard().closed, undefined);
    await lab.world.run();
    assert.equal(lab.heard().closed, "connection_lost");
    assert.equal(lab.network.connections.size, 0);
  });

  test("a half-open side goes on for ever, and its bytes pile up", async () => {
    const lab = new Lab();
    const { wire, client } = lab.dial();
    await lab.world.run();
    lab.connection.halfOpen("client");
    assert.ok(wire.write([chunk(0, 1_000)]) >= 1_000);
    assert.ok(wire.write([chunk(1, 1_000)]) >= 2_000);
    await lab.world.run();
    assert.equal(lab.heard().closed, "connection_lost");
    assert.equal(client.closed, undefined);
    assert.equal(lab.hits("net.half_open"), 1);
    lab.network.stopFaults();
    await lab.world.run();
    assert.equal(client.closed, undefined, "only the driver itself can notice");
    wire.end();
    await lab.world.run();
    assert.equal(client.closed, "in order");
  });

  test("frames of an old connection arrive after those of a new one", async () => {
    const lab = new Lab();
    const old = lab.dial();
    await lab.world.run();
    Object.assign(lab.network.faults, { longDelay: 1, longDelayMsMax: 60_000 });
    old.wire.write([chunk(0)]);
    Object.assign(lab.network.faults, { longDelay: 0 });
    lab.connection.cut({ clientHearsMs: 0, serverHearsMs: 120_000 });
    const fresh = lab.dial();
    fresh.wire.write([chunk(0)]);
    await lab.world.run();
    assert.deepEqual(lab.heard(0).numbers, [0]);
    assert.deepEqual(lab.heard(1).numbers, [0]);
    assert.equal(lab.hits("net.late_frame"), 1);
  });

  test("a ghost repeats the first client frames on a connection whose answers nobody reads", async () => {
    const lab = new Lab();
    lab.network.faults.ghost = 1;
    const { wire, client } = lab.dial();
    wire.write([chunk(0)]);
    await lab.world.run();
    assert.equal(lab.accepted.length, 2);
    assert.deepEqual(lab.heard(1).numbers, [0]);
    assert.equal(lab.heard(1).closed, "in order");
    assert.deepEqual(client.numbers, [0]);
    assert.equal(lab.hits("net.ghost"), 1);
  });

  test("a slow reader makes bytes wait, then drains; healing lets them through at once", async () => {
    const lab = new Lab();
    lab.network.faults.slowReader = 1;
    lab.dial();
    await lab.world.run();
    const event: ServerFrame = {
      kind: "event",
      eventId: 1,
      body: new Uint8Array(10_000),
      end: undefined,
    };
    assert.ok((lab.accepted[0]?.wire.write([event]) ?? 0) > 10_000);
    await lab.world.run();
    assert.equal(lab.heard().drained, 1);
    lab.connection.slow("server", 0.001);
    lab.accepted[0]?.wire.write([event, event]);
    lab.network.stopFaults();
    const since = lab.world.nowMs;
    await lab.world.run({ stop: () => lab.heard().drained === 2 });
    assert.equal(lab.world.nowMs, since);
  });

  test("a server that is down, or refuses, closes the connection right away", async () => {
    const lab = new Lab();
    lab.network.faults.refuse = 1;
    const refused = lab.dial();
    lab.network.faults.refuse = 0;
    lab.server.crash();
    const down = lab.dial();
    assert.equal(down.wire.write([chunk(0)]), 0);
    await lab.world.run();
    assert.equal(refused.client.closed, "connection_lost");
    assert.equal(down.client.closed, "connection_lost");
    lab.server = lab.server.restart();
    lab.serve();
    const up = lab.dial();
    up.wire.write([chunk(0)]);
    await lab.world.run();
    assert.deepEqual(up.client.numbers, [0]);
  });

  test("a partition stalls or kills what is open, refuses what is new, and heals", async () => {
    const outcomes = new Set<string>();
    for (let seed = 0; seed < 20; seed++) {
      const lab = new Lab(seed);
      const { wire, client } = lab.dial();
      await lab.world.run();
      lab.network.partition(lab.client, 30_000);
      wire.write([chunk(0)]);
      const during = lab.dial();
      const startMs = lab.world.nowMs;
      await lab.world.run({ untilMs: startMs + 29_999 });
      assert.deepEqual(client.numbers, []);
      assert.equal(during.client.closed, "connection_lost");
      await lab.world.run({ untilMs: startMs + 40_000 });
      outcomes.add(client.numbers.join() === "0" ? "stalled" : "dead");
      const after = lab.dial();
      after.wire.write([chunk(1)]);
      await lab.world.run();
      assert.deepEqual(after.client.numbers, [1]);
    }
    assert.deepEqual([...outcomes].toSorted(), ["dead", "stalled"]);
  });

  test("when a process dies its peer hears of it, and nothing reaches the dead", async () => {
    const lab = new Lab();
    const { wire, client } = lab.dial();
    await lab.world.run();
    wire.write([chunk(0)]);
    lab.server.crash();
    lab.accepted[0]?.wire.write([{ kind: "ack", seqno: 9 }]);
    await lab.world.run();
    assert.deepEqual(lab.heard().numbers, []);
    assert.equal(lab.heard().closed, undefined);
    assert.deepEqual(client.numbers, []);
    assert.equal(client.closed, "connection_lost");
  });

  test("a write that the process does not survive was either made or not", async () => {
    for (const when of ["before", "after"] as const) {
      const lab = new Lab();
      const { wire } = lab.dial();
      await lab.world.run();
      lab.network.faults.delayMsMax = 0;
      lab.client.crashAtEffect(1, when);
      wire.write([chunk(0)]);
      assert.equal(lab.client.alive, false);
      wire.write([chunk(1)]);
      await lab.world.run();
      assert.ok(lab.heard().numbers.length <= (when === "after" ? 1 : 0));
      assert.equal(lab.heard().closed, "connection_lost");
    }
  });

  test("a paused server takes connections and frames when it wakes", async () => {
    const lab = new Lab();
    lab.server.pause(10_000);
    const { wire, client } = lab.dial();
    wire.write([chunk(0), chunk(1)]);
    await lab.world.run({ untilMs: 9_999 });
    assert.equal(lab.accepted.length, 0);
    await lab.world.run();
    assert.deepEqual(client.numbers, [0, 1]);
  });
});

test("every kind of network fault can be hit by chance alone", async () => {
  const lab = new Lab(11);
  lab.world.expectKinds(NETWORK_KINDS);
  const chances = { longDelay: 0.02, loseFrame: 0.03, duplicateFrame: 0.03, cut: 0.01, halfOpen: 0.3 };
  const perConnect = { refuse: 0.1, ghost: 0.2, slowReader: 0.2, slowWriter: 0.2 };
  Object.assign(lab.network.faults, chances, perConnect);
  for (let i = 0; i < 200; i++) {
    lab.world.enqueue(i * 1_000, () => {
      const { wire } = lab.dial(i % 20 !== 19);
      for (let seqno = 0; seqno < 10; seqno++) wire.write([chunk(seqno), BEAT]);
      lab.client.env.after(20_000, () => wire.end());
    });
  }
  lab.world.enqueue(50_000, () => lab.network.partition(lab.client, 10_000));
  lab.world.enqueue(100_000, () => lab.server.crash());
  lab.world.enqueue(110_000, () => {
    lab.server = lab.server.restart();
    lab.serve();
  });
  await lab.world.run();
  assert.deepEqual(lab.world.counters.neverHit(), []);
});
