/**
 * A server and clients in one process, all of production parts: memory transport, memory log, Node
 * sealing. What can be done to them from outside is what happens to real ones: the network is cut,
 * the server is restarted or killed, a client's process dies.
 */
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import {
  Client,
  type ClientOptions,
  type ClientStream,
  type StreamEvent,
  toolRunner,
  type Tools,
} from "../../src/client/index.ts";
import { retry } from "../../src/core/index.ts";
import { HoldfastError } from "../../src/protocol/errors.ts";
import type { ClientFrame } from "../../src/protocol/frames.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { type Application, createServer, type Server, type ServerOptions } from "../../src/server/index.ts";
import {
  type BlobStore,
  memoryBlobStore,
  MemoryLog,
  openLogStreamStore,
  type StreamStore,
} from "../../src/store/index.ts";
import {
  type Accept,
  type BlobCalls,
  type Connect,
  type Environment,
  memoryTransport,
  systemEnvironment,
} from "../../src/transport/index.ts";

export const HOME_KEY = new Uint8Array(32).fill(7);
export const PRINCIPAL = "alice";

/** Soon enough for a test; the budget lets it cut a connection as often as it likes. */
const SOON = { ...retry.DEFAULTS, baseMs: 2, capMs: 10, budget: { burst: 10_000, refillMs: 1 } };

const encoder = new TextEncoder();
const decoder = new TextDecoder();
export const bytes = (text: string): Uint8Array => encoder.encode(text);
export const text = (body: Uint8Array): string => decoder.decode(body);

/** Lets everything that waits have its turn. */
export const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

export async function until(isSo: () => boolean | Promise<boolean>, what: string): Promise<void> {
  for (let turns = 0; !(await isSo()); turns++) {
    assert.ok(turns < 5_000, `it never happened: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

/** Everything that a stream still says. */
export async function rest(stream: ClientStream): Promise<readonly StreamEvent[]> {
  const events: StreamEvent[] = [];
  for await (const event of stream.events) events.push(event);
  return events;
}

export const words = (events: readonly StreamEvent[]): readonly string[] =>
  events.map(({ body }) => text(body));
export const ids = (events: readonly StreamEvent[]): readonly number[] =>
  events.map(({ eventId }) => eventId);
export const upTo = (count: number): readonly number[] => Array.from({ length: count }, (_, at) => at + 1);

/** A client as a process that can die: from then on it reaches nobody. */
export interface ClientProcess {
  readonly client: Client;
  kill(): void;
}

interface RigClientOptions extends Partial<Omit<ClientOptions, "tools">> {
  readonly tools?: Tools;
}

export class Rig {
  readonly bugs: unknown[] = [];
  /** How far the blob store's clock is ahead. */
  aheadMs = 0;
  connects = 0;
  /** Whoever connects bounds its open streams itself, as a gateway in the server's process does. */
  countsItself = false;
  /** Sees every frame of a client. */
  onReceived: (frame: ClientFrame) => void = () => undefined;
  readonly #application: Application;
  readonly #transport;
  readonly #clients: Client[] = [];
  /** The store of blobs fails so many times, as a disk does that is away for a moment. */
  blobFailures = 0;
  /** Outlives every server, as a disk does. */
  readonly #kept = memoryBlobStore({ now: () => Date.now() + this.aheadMs });
  readonly #blobs: BlobStore = {
    ...this.#kept,
    get: async (...call) => {
      if (this.blobFailures-- > 0) throw new HoldfastError("unavailable", "the store is away");
      return this.#kept.get(...call);
    },
  };
  #log = new MemoryLog({ durability: "fsync", storeBlob: this.#kept.store });
  #store: StreamStore | undefined;
  #server: Server | undefined;

  readonly #host: ServerOptions["host"];

  private constructor(application: Application, host: ServerOptions["host"]) {
    this.#application = application;
    this.#host = host;
    const accept: Accept = (meta, wire) => {
      this.connects++;
      const handler = this.#running.accept({ ...meta, countsItself: this.countsItself }, wire);
      return {
        received: (frame) => {
          this.onReceived(frame);
          handler.received(frame);
        },
        drained: () => handler.drained(),
        closed: (reason) => handler.closed(reason),
      };
    };
    this.#transport = memoryTransport(accept, {
      principalOf: (credentials) => credentials ?? PRINCIPAL,
      blobs: {
        put: async (meta, id, bytes) => this.#running.blobs?.put(meta, id, bytes),
        get: async (meta, id) => this.#running.blobs?.get(meta, id) ?? assert.fail("this server has blobs"),
        forget: async (meta) => this.#running.blobs?.forget(meta),
      },
    });
  }

  /** Ends with the test, which fails for any bug that the server or a client has met. */
  static async start(
    t: TestContext,
    application: Application,
    host: ServerOptions["host"] = {},
  ): Promise<Rig> {
    const rig = new Rig(application, host);
    await rig.#begin();
    t.after(async () => {
      await Promise.all(rig.#clients.map((client) => client.close()));
      await rig.#running.shutdown();
      assert.deepEqual(rig.bugs, []);
    });
    return rig;
  }

  get #running(): Server {
    assert.ok(this.#server !== undefined, "the server runs");
    return this.#server;
  }

  async #begin(): Promise<void> {
    const now = (): number => Date.now();
    this.#store = await openLogStreamStore(this.#log, { now });
    this.#server = createServer({
      store: this.#store,
      blobs: this.#blobs,
      sealing: nodeSealing(),
      application: this.#application,
      ...(this.#host === undefined ? {} : { host: this.#host }),
      onBug: (bug) => this.bugs.push(bug),
    });
  }

  /** Streams that the server has in hand. */
  get hosted(): number {
    return this.#running.hostedCount;
  }

  get blobs(): BlobCalls {
    return this.#transport.blobs;
  }

  cut(): void {
    for (const connection of this.#transport.connections) connection.cut();
  }

  /** The next frame to each client arrives twice. */
  stutter(): void {
    for (const connection of this.#transport.connections) connection.duplicateNext("to_client");
  }

  /** In good order: clients are told, leases given back. */
  async restart(): Promise<void> {
    await this.#running.shutdown();
    this.#log = this.#log.reopened();
    await this.#begin();
  }

  /** Nobody is told, and the old process does not get another word onto the disk. */
  async crash(): Promise<void> {
    const dead = this.#running;
    await this.#log.close();
    this.#log = this.#log.reopened();
    this.cut();
    await this.#begin();
    await dead.shutdown();
  }

  /** The store refuses everything until the server is restarted. */
  async loseStore(): Promise<void> {
    await this.#store?.close();
  }

  client(options: RigClientOptions = {}): Client {
    return this.process(options).client;
  }

  process({ tools, ...options }: RigClientOptions = {}): ClientProcess {
    let isDead = false;
    const wires = new Set<{ end(): void }>();
    const timers = new Set<() => void>();
    const environment: Environment = {
      ...systemEnvironment(),
      after(delayMs, run) {
        if (isDead) return () => undefined;
        const cancel = systemEnvironment().after(delayMs, run);
        timers.add(cancel);
        return cancel;
      },
    };
    const connect: Connect = (meta, handler) => {
      if (isDead) return { write: () => 0, end: () => undefined };
      const wire = this.#transport.connect(meta, {
        received: (frame) => {
          if (!isDead) handler.received(frame);
        },
        drained: () => handler.drained(),
        closed: (reason) => {
          if (!isDead) handler.closed(reason);
        },
      });
      wires.add(wire);
      return wire;
    };
    const client = new Client({
      connect,
      blobs: this.#transport.blobs,
      sealing: nodeSealing(),
      homeKey: HOME_KEY,
      environment,
      stream: { retry: SOON },
      onBug: (bug) => this.bugs.push(bug),
      ...options,
      ...(tools === undefined ? {} : { tools: toolRunner(tools) }),
    });
    this.#clients.push(client);
    const kill = (): void => {
      isDead = true;
      for (const wire of wires) wire.end();
      for (const cancel of timers) cancel();
    };
    return { client, kill };
  }
}
