/**
 * A server of production parts that is spoken to frame by frame, over a log whose appends the test holds, lets go and makes
 * fail, on a clock that the test moves.
 */
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { type AttachFrame, PROTOCOL_VERSION, type ServerFrame } from "../../src/protocol/index.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { type Application, createServer, type Server, type TurnStallNews } from "../../src/server/index.ts";
import { memoryBlobStore, MemoryLog, openLogStreamStore, type StreamStore } from "../../src/store/index.ts";
import {
  type Connect,
  type Environment,
  memoryTransport,
  systemEnvironment,
} from "../../src/transport/index.ts";
import { ScriptedLog } from "../store/scripted-log.ts";
import { bytes, PRINCIPAL, turn } from "./rig.ts";

export const NAME = { principal: PRINCIPAL, idempotencyKey: "s" };
export const STREAM_KEY: Uint8Array = new Uint8Array(32).fill(3);

export const OPEN: AttachFrame = {
  kind: "attach",
  protocolVersion: PROTOCOL_VERSION,
  mode: "open",
  role: "writer",
  eventId: 0,
  journalId: "journal",
  fresh: true,
  abort: false,
  firstChunk: bytes("hello"),
};

export const READ: AttachFrame = {
  ...OPEN,
  role: "reader",
  mode: "resume",
  fresh: false,
  firstChunk: undefined,
};

const listening: Application = async (stream) => {
  for await (const _ of stream.inputs);
};

export interface ScriptedHostOptions {
  /** Every look for a stream waits for it. */
  readonly looking?: Promise<void>;
  readonly application?: Application;
  readonly onStall?: (news: TurnStallNews) => void;
}

/** The wall clock, except that the test adds to it and fires the server's timers. */
class TestClock implements Environment {
  readonly #real = systemEnvironment();
  readonly #timers = new Map<() => void, number>();
  #addedMs = 0;

  now = (): number => this.#real.now() + this.#addedMs;
  monotonic = (): number => this.#real.monotonic() + this.#addedMs;
  random = (): number => this.#real.random();
  randomBytes = (length: number): Uint8Array => this.#real.randomBytes(length);

  after = (delayMs: number, run: () => void): (() => void) => {
    // No time passes: the server lets others have their turn.
    if (delayMs === 0) return this.#real.after(0, run);
    this.#timers.set(run, delayMs);
    return () => void this.#timers.delete(run);
  };

  /** Time passes, and no timer fires. */
  add(ms: number): void {
    this.#addedMs += ms;
  }

  /** Every timer of that length fires once. */
  async fire(delayMs: number): Promise<void> {
    const due = [...this.#timers].filter(([, each]) => each === delayMs);
    assert.ok(due.length > 0, `the server has a timer of ${delayMs} ms`);
    for (const [run] of due) {
      this.#timers.delete(run);
      run();
    }
    await settle();
  }
}

export class ScriptedHost {
  readonly clock: TestClock;
  readonly log: ScriptedLog;
  readonly store: StreamStore;
  readonly server: Server;
  readonly #connect: Connect;

  private constructor(
    clock: TestClock,
    log: ScriptedLog,
    store: StreamStore,
    options: ScriptedHostOptions,
    bugs: unknown[],
  ) {
    this.clock = clock;
    this.log = log;
    this.store = store;
    const load: StreamStore["load"] = async (name) => {
      await options.looking;
      return store.load(name);
    };
    const looked = new Proxy(store, {
      get: (target, name): unknown => {
        const value: unknown = name === "load" ? load : Reflect.get(target, name);
        if (typeof value !== "function") return value;
        return (...given: readonly unknown[]): unknown => Reflect.apply(value, target, given);
      },
    });
    this.server = createServer({
      store: looked,
      blobs: memoryBlobStore({ now: Date.now }),
      sealing: nodeSealing(),
      application: options.application ?? listening,
      environment: this.clock,
      onBug: (bug) => bugs.push(bug),
      ...(options.onStall === undefined ? {} : { onStall: options.onStall }),
    });
    this.#connect = memoryTransport(this.server.accept, { principalOf: () => PRINCIPAL }).connect;
  }

  /** On rows that a server before has left, or on none. */
  static async start(
    t: TestContext,
    options: ScriptedHostOptions = {},
    rows = new MemoryLog(),
  ): Promise<ScriptedHost> {
    const log = new ScriptedLog(rows);
    const bugs: unknown[] = [];
    const clock = new TestClock();
    const store = await openLogStreamStore(log, { now: clock.now });
    const host = new ScriptedHost(clock, log, store, options, bugs);
    t.after(async () => {
      log.holding = false;
      while (log.heldCount > 0) await log.finish();
      await host.server.shutdown();
      assert.deepEqual(bugs, []);
    });
    return host;
  }

  /** What the server says to a client that attaches like that; it may be an error. */
  readonly attach = async (frame: AttachFrame, streamKey = STREAM_KEY) => {
    const heard: ServerFrame[] = [];
    const meta = { idempotencyKey: NAME.idempotencyKey, streamKey, credentials: undefined };
    const received = (said: ServerFrame): void => void heard.push(said);
    const wire = this.#connect(meta, { received, drained: () => undefined, closed: () => undefined });
    wire.write([frame]);
    await settle();
    return { wire, heard };
  };
}

export async function settle(): Promise<void> {
  for (let turns = 0; turns < 10; turns++) await turn();
}

export const kinds = (heard: readonly ServerFrame[]): readonly string[] =>
  heard.map((frame) => (frame.kind === "error" ? frame.code : frame.kind));
