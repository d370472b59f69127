/**
 * What every transport must do, as a suite that runs over any of them.
 *
 * One idea: the two sides are mirror images, so each rule is checked from both.
 *
 * Invariant checked throughout: a handler hears `closed` exactly once, and nothing after it.
 */
import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import type { HoldfastError } from "../../src/protocol/errors.ts";
import type { ClientFrame, ServerFrame } from "../../src/protocol/frames.ts";
import type {
  Accept,
  AcceptedMeta,
  ClientMeta,
  Connect,
  Handler,
  Wire,
} from "../../src/transport/transport.ts";

export interface TransportUnderTest {
  /** Credentials are the principal's name; without any the connection must be refused. */
  readonly connect: Connect;
  /** Lets everything happen that is under way. */
  settle(): Promise<void>;
  /** Breaks every open connection, so that both sides hear of it. */
  cut(): void;
  /** What is written from now on may have to wait. */
  congest(): void;
}

/** More than any transport takes at once without letting the writer wait. */
const FLOOD_FRAMES = 256;
const FLOOD_BODY_BYTES = 65_536;

/** What never comes is left to the assertion behind the wait. */
const SETTLES_MAX = 1_000;

/** Lets everything happen, and again until that has happened: a busy machine delivers late. */
async function until(transport: TransportUnderTest, hasHappened: () => boolean): Promise<void> {
  for (let times = 0; times < SETTLES_MAX; times++) {
    await transport.settle();
    if (hasHappened()) return;
  }
}

type Call<Frame> = Frame | "drained" | { readonly closed: HoldfastError | undefined };

/** Keeps every call; fails the test at a call after `closed`. */
class Recorder<Frame extends object> implements Handler<Frame> {
  readonly calls: Call<Frame>[] = [];
  onFrame: (frame: Frame) => void = () => {};

  received(frame: Frame): void {
    this.#add(frame);
    this.onFrame(frame);
  }

  drained(): void {
    this.#add("drained");
  }

  closed(reason: HoldfastError | undefined): void {
    this.#add({ closed: reason });
  }

  get frames(): Frame[] {
    return this.calls.filter((call): call is Frame => call !== "drained" && !("closed" in call));
  }

  /** Undefined while it is open; otherwise the code, or "in order" when there was no reason. */
  get end(): string | undefined {
    const last = this.calls.at(-1);
    if (last === undefined || last === "drained" || !("closed" in last)) return undefined;
    return last.closed?.code ?? "in order";
  }

  #add(call: Call<Frame>): void {
    assert.equal(this.end, undefined, "no call comes after closed");
    this.calls.push(call);
  }
}

interface Pair {
  readonly transport: TransportUnderTest;
  readonly client: Recorder<ServerFrame>;
  readonly server: Recorder<ClientFrame>;
  readonly toServer: Wire<ClientFrame>;
  readonly toClient: Wire<ServerFrame>;
  readonly accepted: AcceptedMeta;
}

const META: ClientMeta = {
  idempotencyKey: "stream-1",
  streamKey: new Uint8Array(32).fill(7),
  credentials: "alice",
  conversation: { key: new Uint8Array(32).fill(4), keepMs: 60_000 },
};

function chunk(seqno: number, bytes = 3): ClientFrame {
  return { kind: "chunk", seqno, writerEpoch: 1, body: new Uint8Array(bytes).fill(seqno) };
}

function event(eventId: number, bytes = 3): ServerFrame {
  return { kind: "event", eventId, body: new Uint8Array(bytes).fill(eventId), end: undefined };
}

const range = (from: number, count: number): number[] => Array.from({ length: count }, (_, i) => from + i);

export function transportConformance(
  name: string,
  /** Whatever it opens it closes after the test. */
  make: (accept: Accept, t: TestContext) => TransportUnderTest | Promise<TransportUnderTest>,
): void {
  async function connected(t: TestContext): Promise<Pair> {
    const server = new Recorder<ClientFrame>();
    const client = new Recorder<ServerFrame>();
    const accepts: { meta: AcceptedMeta; wire: Wire<ServerFrame> }[] = [];
    const transport = await make((meta, wire) => {
      accepts.push({ meta, wire });
      return server;
    }, t);
    const toServer = transport.connect(META, client);
    await until(transport, () => accepts.length > 0 || client.end !== undefined);
    const [accept] = accepts;
    assert.equal(client.end, undefined, "a connection is open");
    assert.equal(accepts.length, 1, "a connection is accepted once");
    assert.ok(accept !== undefined);
    return { transport, client, server, toServer, toClient: accept.wire, accepted: accept.meta };
  }

  /** The same rule, once from each side. */
  function mirrored(rule: string, check: (pair: Pair, near: Side, far: Side) => Promise<void>): void {
    for (const side of ["client", "server"] as const) {
      test(`${rule} (${side} side)`, async (t) => {
        const pair = await connected(t);
        const sides = { client: clientSide(pair), server: serverSide(pair) };
        await check(pair, sides[side], sides[side === "client" ? "server" : "client"]);
      });
    }
  }

  describe(`${name} is a transport`, () => {
    test("the server learns the stream, its key and the principal, never the credentials", async (t) => {
      const { accepted } = await connected(t);
      assert.deepEqual(accepted, {
        idempotencyKey: META.idempotencyKey,
        streamKey: META.streamKey,
        conversation: META.conversation,
        principal: "alice",
      });
    });

    test("nobody is called before connect has returned", async (t) => {
      const client = new Recorder<ServerFrame>();
      let accepted = false;
      const transport = await make(() => {
        accepted = true;
        return new Recorder<ClientFrame>();
      }, t);
      transport.connect(META, client).write([chunk(0)]);
      assert.equal(accepted, false);
      assert.deepEqual(client.calls, []);
    });

    test("frames written before the server has met the connection arrive", async (t) => {
      const server = new Recorder<ClientFrame>();
      const transport = await make(() => server, t);
      const wire = transport.connect(META, new Recorder<ServerFrame>());
      wire.write([chunk(0), chunk(1)]);
      wire.write([chunk(2)]);
      await until(transport, () => server.frames.length >= 3);
      assert.deepEqual(server.frames, [chunk(0), chunk(1), chunk(2)]);
    });

    test("a principal that is not known hears unauthenticated, and the server hears nothing", async (t) => {
      const client = new Recorder<ServerFrame>();
      let accepted = false;
      const transport = await make(() => {
        accepted = true;
        return new Recorder<ClientFrame>();
      }, t);
      const wire = transport.connect({ ...META, credentials: undefined }, client);
      wire.write([chunk(0)]);
      await until(transport, () => client.end !== undefined);
      assert.equal(client.end, "unauthenticated");
      assert.equal(accepted, false);
      wire.write([chunk(1)]);
      wire.end();
      await transport.settle();
    });

    test("two connections do not mix", async (t) => {
      const servers = new Map<string, Recorder<ClientFrame>>();
      const transport = await make(({ idempotencyKey }) => {
        const server = new Recorder<ClientFrame>();
        servers.set(idempotencyKey, server);
        return server;
      }, t);
      const connect = (idempotencyKey: string): Wire<ClientFrame> =>
        transport.connect({ ...META, idempotencyKey }, new Recorder<ServerFrame>());
      const [a, b] = [connect("a"), connect("b")];
      for (const seqno of range(0, 5)) {
        a.write([chunk(seqno)]);
        b.write([chunk(100 + seqno)]);
      }
      a.end();
      const heard = (key: string): number => servers.get(key)?.frames.length ?? 0;
      await until(transport, () => servers.get("a")?.end !== undefined && heard("b") >= 5);
      assert.deepEqual(
        servers.get("a")?.frames,
        range(0, 5).map((seqno) => chunk(seqno)),
      );
      assert.deepEqual(
        servers.get("b")?.frames,
        range(100, 5).map((seqno) => chunk(seqno)),
      );
      assert.equal(servers.get("a")?.end, "in order");
      assert.equal(servers.get("b")?.end, undefined);
    });

    mirrored("what is written arrives whole and in order", async (pair, near, far) => {
      near.send(0, 10);
      near.send(10, 1);
      await pair.transport.settle();
      near.send(11, 20);
      await until(pair.transport, () => far.numbers().length >= 31);
      assert.deepEqual(far.numbers(), range(0, 31));
    });

    mirrored("nothing arrives inside the call that wrote it", async (pair, near, far) => {
      near.send(0, 1);
      assert.deepEqual(far.numbers(), []);
      near.wire.end();
      assert.equal(far.end(), undefined);
      assert.equal(near.end(), undefined);
      await pair.transport.settle();
    });

    mirrored("an answer may be written from inside received", async (pair, near, far) => {
      far.onFrame((number) => far.send(number + 1, 1));
      near.onFrame((number) => {
        if (number < 10) near.send(number + 1, 1);
      });
      near.send(0, 1);
      await until(pair.transport, () => near.numbers().length >= 6);
      assert.deepEqual(far.numbers(), [0, 2, 4, 6, 8, 10]);
      assert.deepEqual(near.numbers(), [1, 3, 5, 7, 9, 11]);
    });

    mirrored(
      "end comes after what was written and closes both sides once, without a reason",
      async (pair, near, far) => {
        near.send(0, 5);
        near.wire.end();
        await until(pair.transport, () => haveEnded(near, far));
        assert.deepEqual(far.numbers(), range(0, 5));
        assert.equal(far.end(), "in order");
        assert.equal(near.end(), "in order");
      },
    );

    mirrored("ending twice, and writing after the end, do nothing", async (pair, near, far) => {
      near.send(0, 1);
      near.wire.end();
      near.wire.end();
      near.send(1, 1);
      await until(pair.transport, () => far.end() !== undefined);
      near.wire.end();
      near.send(2, 1);
      far.send(3, 1);
      far.wire.end();
      await until(pair.transport, () => haveEnded(near, far));
      assert.deepEqual(far.numbers(), [0]);
      assert.deepEqual(near.numbers(), []);
    });

    test("both sides may end at the same time", async (t) => {
      const { transport, client, server, toClient, toServer } = await connected(t);
      toServer.end();
      toClient.end();
      await until(transport, () => client.end !== undefined && server.end !== undefined);
      assert.equal(client.end, "in order");
      assert.equal(server.end, "in order");
    });

    mirrored(
      "B6: a cut connection closes with connection_lost, and nothing follows",
      async (pair, near, far) => {
        near.send(0, 3);
        pair.transport.cut();
        near.send(3, 3);
        await until(pair.transport, () => haveEnded(near, far));
        assert.equal(near.end(), "connection_lost");
        assert.equal(far.end(), "connection_lost");
        // Nothing, or a prefix: a cut may overtake what was under way, but never leaves a hole.
        assert.deepEqual(far.numbers(), range(0, far.numbers().length));
        near.send(6, 1);
        near.wire.end();
        await pair.transport.settle();
      },
    );

    mirrored("a connection that is cut twice, or while it ends, closes once", async (pair, near, far) => {
      near.send(0, 1);
      near.wire.end();
      pair.transport.cut();
      pair.transport.cut();
      await pair.transport.settle();
      pair.transport.cut();
      await until(pair.transport, () => haveEnded(near, far));
      assert.ok(haveEnded(near, far));
    });

    mirrored("a receiver may end the connection from inside received", async (pair, near, far) => {
      far.onFrame(() => far.wire.end());
      near.send(0, 1);
      await until(pair.transport, () => haveEnded(near, far));
      assert.equal(near.end(), "in order");
      assert.equal(far.end(), "in order");
    });

    mirrored(
      "F2: write tells how many bytes wait, and drained comes when none do",
      async (pair, near, far) => {
        pair.transport.congest();
        let waiting = 0;
        let sent = 0;
        while (waiting === 0 && sent < FLOOD_FRAMES) waiting = near.send(sent++, 1, FLOOD_BODY_BYTES);
        assert.ok(waiting > 0, "something has to wait");
        const more = near.send(sent++, 1, FLOOD_BODY_BYTES);
        assert.ok(more >= waiting + FLOOD_BODY_BYTES, "what waits adds up");
        assert.equal(near.drained(), 0);
        await until(pair.transport, () => near.drained() > 0 && far.numbers().length >= sent);
        assert.ok(near.drained() >= 1, "drained follows");
        assert.deepEqual(far.numbers(), range(0, sent));
      },
    );
  });
}

/** One side, named so that a rule can be written once: `numbers` are those of the frames it received. */
interface Side {
  readonly wire: { end(): void };
  send(from: number, count: number, bytes?: number): number;
  onFrame(react: (number: number) => void): void;
  numbers(): number[];
  end(): string | undefined;
  drained(): number;
}

function haveEnded(...sides: readonly Side[]): boolean {
  return sides.every((side) => side.end() !== undefined);
}

function clientSide({ client, toServer }: Pair): Side {
  const number = (frame: ServerFrame): number => (frame.kind === "event" ? frame.eventId : -1);
  return {
    wire: toServer,
    send: (from, count, bytes) => toServer.write(range(from, count).map((seqno) => chunk(seqno, bytes))),
    onFrame(react) {
      client.onFrame = (frame) => react(number(frame));
    },
    numbers: () => client.frames.map(number),
    end: () => client.end,
    drained: () => client.calls.filter((call) => call === "drained").length,
  };
}

function serverSide({ server, toClient }: Pair): Side {
  const number = (frame: ClientFrame): number => (frame.kind === "chunk" ? frame.seqno : -1);
  return {
    wire: toClient,
    send: (from, count, bytes) => toClient.write(range(from, count).map((eventId) => event(eventId, bytes))),
    onFrame(react) {
      server.onFrame = (frame) => react(number(frame));
    },
    numbers: () => server.frames.map(number),
    end: () => server.end,
    drained: () => server.calls.filter((call) => call === "drained").length,
  };
}
