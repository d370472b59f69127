/**
 * The simulated network between processes: it joins the production `Connect` and `Accept`.
 *
 * One idea: all faults are decided here, in one place and from one seeded stream, and carried out by
 * the two ends of a connection (`connection.ts`), which are the same code.
 *
 * Invariant: within a connection and direction order is kept, unless clients send requests of their own (`split`); after
 * `stopFaults` nothing new goes wrong, though a side that missed a cut still has to notice itself.
 */
import {
  decodeClientFrame,
  decodeServerFrame,
  encodeClientFrame,
  encodeServerFrame,
} from "../../../src/protocol/frame-codec.ts";
import { HoldfastError } from "../../../src/protocol/errors.ts";
import type { ClientFrame, ServerFrame } from "../../../src/protocol/frames.ts";
import type { Accept, ClientMeta, Connect, Handler, Wire } from "../../../src/transport/transport.ts";
import {
  type AnyFrame,
  type CutOptions,
  type End,
  lost,
  type SideName,
  SimConnection,
} from "./connection.ts";
import { CALM_NETWORK, type NetworkFaults } from "./network-faults.ts";
import { SimProcess } from "./process.ts";
import type { Random } from "./random.ts";
import type { World } from "./world.ts";

export interface NetworkOptions {
  /** Whose connection it is; undefined refuses it. Default: the credentials are the principal's name. */
  readonly principalOf?: (credentials: string | undefined) => string | undefined;
  /** Sends every frame through the production codec and back, so that bugs of the wire show up. */
  readonly codec?: boolean;
  /** What a client sends behind its first frame are requests of their own: they may overtake each other. */
  readonly split?: boolean;
}

interface Listener {
  readonly process: SimProcess;
  readonly accept: Accept;
}

/** How long a ghost connection stays, and how long a connect into a partition takes to fail. */
const GHOST_LIFE_MS_MAX = 60_000;
const CONNECT_TIMEOUT_MS_MAX = 20_000;

export class SimNetwork {
  readonly world: World;
  readonly random: Random;
  readonly faults: NetworkFaults = { ...CALM_NETWORK };

  readonly #principalOf: (credentials: string | undefined) => string | undefined;
  readonly #codec: boolean;
  readonly split: boolean;
  readonly #listeners = new Map<string, Listener>();
  readonly #connections = new Set<SimConnection>();
  readonly #watched = new WeakSet<SimProcess>();
  readonly #partitionedUntilMs = new Map<string, number>();
  /** The newest connection of a client's stream from which the server has received something. */
  readonly #newest = new Map<string, number>();
  readonly #ghosts: SimProcess;
  #nextId = 1;

  constructor(world: World, options: NetworkOptions = {}) {
    this.world = world;
    this.random = world.random.fork("network");
    this.#principalOf = options.principalOf ?? ((credentials) => credentials);
    this.#codec = options.codec ?? false;
    this.split = options.split ?? false;
    this.#ghosts = new SimProcess(world, "ghost");
  }

  /** From now on connections to `address` reach this process; the one before is forgotten. */
  listen(address: string, process: SimProcess, accept: Accept): void {
    this.#watch(process);
    this.#listeners.set(address, { process, accept });
  }

  /** The production `Connect` of a process. `to` is asked at each connect; undefined: there is no server. */
  connectFrom(process: SimProcess, to: () => string | undefined): Connect {
    this.#watch(process);
    return (meta, handler) =>
      process.effect("connect", () => this.#connect(process, to(), meta, handler, false), NO_WIRE);
  }

  /** Those of which at least one side does not know that they are over. */
  get connections(): ReadonlySet<SimConnection> {
    return this.#connections;
  }

  /** Cuts the process off for a time: connections break unnoticed or stall, new ones time out. */
  partition(process: SimProcess, durationMs: number): void {
    this.world.hit("net.partition");
    this.world.trace(process.name, "partitioned for", durationMs);
    this.#partitionedUntilMs.set(process.name, this.world.nowMs + durationMs);
    for (const connection of this.#connectionsOf(process)) {
      if (this.random.chance(0.5)) connection.waitsForHealing = true;
      else this.cut(connection, { clientHearsMs: undefined, serverHearsMs: undefined });
    }
  }

  /** Nothing goes wrong from now on, and what is slow or stalled moves. Who missed a cut still has to notice. */
  stopFaults(): void {
    Object.assign(this.faults, CALM_NETWORK);
    this.#partitionedUntilMs.clear();
    for (const connection of this.#connections) {
      connection.waitsForHealing = false;
      connection.recording = undefined;
      for (const end of [connection.client, connection.server]) {
        end.losing = 0;
        end.duplicating = 0;
        end.slow(Number.POSITIVE_INFINITY);
      }
    }
  }

  cut(connection: SimConnection, options: CutOptions = {}): void {
    const { client, server } = connection;
    if (client.unheard && server.unheard) return;
    this.world.hit("net.cut");
    this.world.trace("network", "cut", connection.id);
    client.becomeUnheard();
    server.becomeUnheard();
    const unaware = this.random.chance(this.faults.halfOpen)
      ? this.random.pick(["client", "server"])
      : undefined;
    this.#hear(
      client,
      "clientHearsMs" in options ? options.clientHearsMs : this.#newsMs(unaware === "client"),
    );
    this.#hear(
      server,
      "serverHearsMs" in options ? options.serverHearsMs : this.#newsMs(unaware === "server"),
    );
  }

  // What follows is for the two ends of a connection.

  perhapsCut(connection: SimConnection): void {
    if (!connection.ghost && this.random.chance(this.faults.cut)) this.cut(connection);
  }

  loses(end: { losing: number; readonly connection: SimConnection }): boolean {
    if (end.losing > 0) return end.losing-- > 0;
    return !end.connection.ghost && this.random.chance(this.faults.loseFrame);
  }

  repeats(end: { duplicating: number; readonly connection: SimConnection }): boolean {
    if (end.duplicating > 0) return end.duplicating-- > 0;
    return !end.connection.ghost && this.random.chance(this.faults.duplicateFrame);
  }

  delayMs(): number {
    return this.random.int(this.faults.delayMsMax + 1);
  }

  /** When something sent now arrives, if nothing sent before is later. */
  arrivalMs(connection: SimConnection): number {
    const { nowMs } = this.world;
    const healedMs = connection.waitsForHealing
      ? this.#healedMs(connection.client.process, connection.server.process)
      : 0;
    const fromMs = Math.max(nowMs, healedMs);
    if (!this.random.chance(this.faults.longDelay)) return fromMs + this.delayMs();
    this.world.hit("net.long_delay");
    return fromMs + this.random.int(this.faults.longDelayMsMax + 1);
  }

  arrived(connection: SimConnection, sender: SideName, frame: AnyFrame): void {
    const receiver = sender === "client" ? connection.server : connection.client;
    this.world.trace(receiver.process.name, `received ${frame.kind}`, numberOf(frame), "on", connection.id);
    if (sender === "server" || connection.ghost) return;
    const newest = this.#newest.get(connection.stream) ?? 0;
    if (connection.id < newest) this.world.hit("net.late_frame");
    else if (connection.id > newest) this.#newest.set(connection.stream, connection.id);
  }

  recodeClient(frame: ClientFrame, idempotencyKey: string): ClientFrame {
    return this.#codec ? decodeClientFrame(encodeClientFrame(frame, idempotencyKey)).frame : frame;
  }

  recodeServer(frame: ServerFrame): ServerFrame {
    return this.#codec ? decodeServerFrame(encodeServerFrame(frame)) : frame;
  }

  closed(connection: SimConnection): void {
    if (!connection.open) this.#connections.delete(connection);
  }

  #connect(
    process: SimProcess,
    address: string | undefined,
    meta: ClientMeta,
    handler: Handler<ServerFrame>,
    ghost: boolean,
  ): Wire<ClientFrame> {
    const listener = address === undefined ? undefined : this.#listeners.get(address);
    if (listener === undefined || !listener.process.alive) {
      return this.#refuse(process, handler, "net.server_down", this.delayMs());
    }
    if (this.#healedMs(process, listener.process) > this.world.nowMs) {
      return this.#refuse(process, handler, "net.refused", this.random.int(CONNECT_TIMEOUT_MS_MAX));
    }
    if (!ghost && this.random.chance(this.faults.refuse)) {
      return this.#refuse(process, handler, "net.refused", this.delayMs());
    }

    const connection = new SimConnection(this, this.#nextId++, meta, process, listener.process, ghost);
    this.#connections.add(connection);
    this.world.trace(process.name, "connects", connection.id);
    connection.client.handler = handler;
    connection.client.sendAccept(() => this.#accept(connection, listener.accept));
    if (!ghost) this.#afflict(connection, address);
    return connection.client;
  }

  #accept(connection: SimConnection, accept: Accept): void {
    const { client, server, meta } = connection;
    const principal = this.#principalOf(meta.credentials);
    if (principal === undefined) {
      this.world.hit("net.unauthenticated");
      client.becomeUnheard();
      server.abandon();
      client.closeAfter(
        this.delayMs(),
        new HoldfastError("unauthenticated", "the credentials were not accepted"),
      );
      return;
    }
    const { credentials: _, ...said } = meta;
    server.handler = accept({ ...said, principal }, server);
  }

  /** Closes as soon as the process can hear it. */
  #refuse(
    process: SimProcess,
    handler: Handler<ServerFrame>,
    kind: string,
    delayMs: number,
  ): Wire<ClientFrame> {
    this.world.hit(kind);
    this.world.trace(process.name, "cannot connect", kind);
    this.world.enqueue(
      delayMs,
      () => handler.closed(lost("no connection could be made")),
      undefined,
      process,
    );
    return NO_WIRE;
  }

  /** Draws what this connection suffers for its whole life. */
  #afflict(connection: SimConnection, address: string | undefined): void {
    const { faults, random } = this;
    if (random.chance(faults.slowReader))
      connection.slow("server", 0.02 + random.float() * faults.slowBytesPerMsMax);
    if (random.chance(faults.slowWriter))
      connection.slow("client", 0.02 + random.float() * faults.slowBytesPerMsMax);
    if (!random.chance(faults.ghost)) return;
    connection.recording = [];
    this.world.enqueue(random.int(faults.ghostDelayMsMax + 1), () => this.#haunt(connection, address));
  }

  #haunt(original: SimConnection, address: string | undefined): void {
    const recorded = original.recording ?? [];
    original.recording = undefined;
    if (recorded.length === 0) return;
    const frames = recorded.slice(0, 1 + this.random.int(recorded.length));
    this.world.hit("net.ghost");
    const wire = this.#connect(this.#ghosts, address, original.meta, DEAF, true);
    wire.write(frames);
    this.world.enqueue(this.random.int(GHOST_LIFE_MS_MAX), () => wire.end());
  }

  #crashed(process: SimProcess): void {
    for (const connection of this.#connectionsOf(process)) {
      const { client, server } = connection;
      const [dead, peer] = client.process === process ? [client, server] : [server, client];
      dead.abandon();
      peer.becomeUnheard();
      this.#hear(peer, this.#newsMs(this.random.chance(this.faults.halfOpen)));
    }
  }

  /** When a side hears of a break: soon, late, or (undefined) never. */
  #newsMs(unaware: boolean): number | undefined {
    if (!unaware) return this.random.int(10 * (this.faults.delayMsMax + 1));
    return this.random.chance(this.faults.lateNews) ? this.random.int(this.faults.lateNewsMsMax) : undefined;
  }

  #hear(end: Pick<End<never, never>, "closeAfter" | "open">, delayMs: number | undefined): void {
    if (!end.open) return;
    if (delayMs === undefined || delayMs > LATE_MS) this.world.hit("net.half_open");
    if (delayMs !== undefined) end.closeAfter(delayMs, lost("the connection broke"));
  }

  #healedMs(a: SimProcess, b: SimProcess): number {
    return Math.max(this.#partitionedUntilMs.get(a.name) ?? 0, this.#partitionedUntilMs.get(b.name) ?? 0);
  }

  #connectionsOf(process: SimProcess): SimConnection[] {
    return [...this.#connections].filter(
      ({ client, server }) => client.process === process || server.process === process,
    );
  }

  #watch(process: SimProcess): void {
    if (this.#watched.has(process)) return;
    this.#watched.add(process);
    process.onCrash(() => this.#crashed(process));
  }
}

/** Beyond this a side that has not heard of a break counts as half-open. */
const LATE_MS = 10_000;

const NO_WIRE: Wire<ClientFrame> = { write: () => 0, end() {} };
const DEAF: Handler<ServerFrame> = { received() {}, drained() {}, closed() {} };

function numberOf(frame: AnyFrame): number | undefined {
  switch (frame.kind) {
    case "chunk":
    case "close":
    case "ack":
      return frame.seqno;
    case "event":
    case "attach":
      return frame.eventId;
    default:
      return undefined;
  }
}
