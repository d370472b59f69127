/**
 * A process with a server, its agent and its gateway, put together as `holdfast serve` does, on a simulated database.
 *
 * It may die at any call that leaves it, or be stopped in good order; a supervisor starts it again. What is in front of the gateway, the
 * HTTP layer, is in the same process: `gateway` is what it would call.
 */
import { fromBinary } from "../../../src/protocol/message.ts";
import { createAgent } from "../../../src/agent/index.ts";
import { Client } from "../../../src/client/index.ts";
import { Gateway, GATEWAY_STREAMS, type GatewayLimits } from "../../../src/gateway/index.ts";
import { given } from "../../../src/protocol/given.ts";
import { hexOf } from "../../../src/protocol/bytes.ts";
import { HoldfastError } from "../../../src/protocol/errors.ts";
import type { ClientFrame } from "../../../src/protocol/frames.ts";
import { AgentClientMessageSchema } from "../../../src/protocol/messages.ts";
import { nodeSealing } from "../../../src/sealing/node.ts";
import { createServer, type Server } from "../../../src/server/index.ts";
import { openLogStreamStore } from "../../../src/store/index.ts";
import { memoryTransport } from "../../../src/transport/index.ts";
import type { Accept, AcceptedMeta } from "../../../src/transport/transport.ts";
import { type Random, SimProcess, type World } from "../world/index.ts";
import { SimDatabase } from "./database.ts";
import type { LogEnd } from "./kinds.ts";
import type { Provider } from "./provider.ts";
import { joinSimulated, LEASE_MS, type SharedDatabase } from "./shared-database.ts";

export interface GatewayNodeOptions {
  readonly world: World;
  readonly provider: Provider;
  readonly limits: GatewayLimits;
  readonly retentionMs: number;
  readonly logEnd?: LogEnd;
  /** Several nodes have one; without it the node has a disk of its own. */
  readonly shared?: { readonly name: string; readonly database: SharedDatabase };
}

/** A turn that was begun, as the server is asked for it. */
export interface BegunStream {
  readonly life: number;
  readonly principal: string;
  readonly conversationId: string;
}

interface Running {
  readonly process: SimProcess;
  readonly gateway: Gateway;
  readonly clientOf: (principal: string) => Client;
  close(): Promise<void>;
}

const RESTART_MS_MAX = 4_000;
const STREAM_LOST = 0.04;
const CONVERSATION_LOST = 0.06;
const CLEAN_UP_MS = 60 * 60_000;
/** Rare: a session that waits for hours costs few steps. */
const HEARTBEAT_MS = 60_000;
/** Logs of the gateway's worlds are some kilobytes long. */
const YOUNGEST: Readonly<Record<LogEnd, { readonly youngestBytes?: number }>> = {
  log_kept: {},
  log_end_kept: { youngestBytes: 3_000 },
  from_rows: { youngestBytes: 0 },
};

export class GatewayNode {
  process: SimProcess;
  /** By stream id, in all lives. */
  readonly streams = new Map<string, BegunStream>();
  /** The process is dead, or has begun to close: whatever is connected to it hears of it. */
  onDown: (why: "killed" | "closing") => void = () => undefined;
  /** A stream was lost while no process ran. */
  onStreamLost: (streamId: string) => void = () => undefined;
  onConversationLost: (conversationId: string) => void = () => undefined;
  isCalm = false;
  /** When this life began to take requests, by the world's clock. */
  runsSinceMs = 0;
  readonly #options: GatewayNodeOptions;
  readonly #database: SimDatabase;
  readonly #homeKey: Uint8Array;
  readonly #secret: Uint8Array;
  #running: Running | undefined;

  constructor(options: GatewayNodeOptions) {
    this.#options = options;
    const { world } = options;
    const random = world.random.fork("keys");
    this.#homeKey = random.bytes(32);
    this.#secret = random.bytes(32);
    this.process = new SimProcess(world, options.shared?.name ?? "gateway");
    this.#database = new SimDatabase(world, () => this.process.env.now());
  }

  /** Undefined while no process takes requests. */
  get gateway(): Gateway | undefined {
    return this.#running?.gateway;
  }

  get life(): number {
    return this.process.incarnation;
  }

  boot(): void {
    const { world } = this.#options;
    const process = this.process.restart();
    const { shared } = this.#options;
    const random = world.random.fork(`restart ${shared?.name ?? ""}${process.incarnation}`);
    this.process = process;
    process.onCrash(() => {
      this.count();
      this.#running = undefined;
      this.onDown("killed");
      const isLossy = !this.isCalm && this.#options.shared === undefined;
      if (isLossy && random.chance(STREAM_LOST)) this.#loseStream(random);
      const other = world.random.fork(`conversation ${process.incarnation}`);
      if (isLossy && other.chance(CONVERSATION_LOST)) this.#loseConversation(other);
      world.enqueue(random.int(RESTART_MS_MAX), () => this.boot());
    });
    this.#start(process).catch((cause: unknown) => {
      // No database at its start: the supervisor starts it again.
      if (shared !== undefined && HoldfastError.codeOf(cause) === "unavailable") process.crash();
      else world.fail(cause);
    });
  }

  /** As with a database that was restored: the log of a turn that was under way is gone. */
  #loseStream(random: Random): void {
    const { world } = this.#options;
    const names = [...this.streams].map(([idempotencyKey, { principal }]) => ({ principal, idempotencyKey }));
    const lose = async (): Promise<void> => {
      const lost = await this.#database.loseOpen(names.slice(-8), random);
      if (lost === undefined) return;
      world.hit("gateway.fault.stream_lost");
      world.trace("database", "loses the stream", lost.slice(-8));
      this.onStreamLost(lost);
    };
    lose().catch((cause: unknown) => world.fail(cause));
  }

  /** As with a database that was restored: what the server keeps of a conversation is gone, and its sessions are there. */
  #loseConversation(random: Random): void {
    const { world } = this.#options;
    const latest = [...this.streams.values()].slice(-8);
    if (latest.length === 0) return;
    const { principal, conversationId } = random.pick(latest);
    const sealing = nodeSealing();
    const key = sealing.deriveConversationKey(this.#homeKey, principal, conversationId);
    const space = JSON.stringify(["conversation", principal, hexOf(sealing.secretName(key, "conversation"))]);
    const lose = async (): Promise<void> => {
      if ((await this.#database.loseSpace(space)) === 0) return;
      world.hit("gateway.fault.conversation_lost");
      world.trace("database", "loses the conversation", conversationId.slice(0, 8));
      this.onConversationLost(conversationId);
    };
    lose().catch((cause: unknown) => world.fail(cause));
  }

  /** Counts what sessions of this life ended by. Called once at its end. */
  count(): void {
    const { world } = this.#options;
    for (const why of ["abandoned", "evicted", "expired"] as const) {
      const times = this.gateway?.counters[why] ?? 0;
      if (times > 0) world.counters.hit(`gateway.sometimes.${why}`, times);
    }
  }

  /** SIGTERM: requests are ended first, then the gateway, its clients and the server; then the supervisor starts it again. */
  async close(): Promise<void> {
    const running = this.#running;
    if (running === undefined) return;
    this.count();
    this.#running = undefined;
    this.onDown("closing");
    await running.close();
    if (running.process.alive) running.process.crash();
  }

  /** Stops a turn as a client of the server does, past the gateway. */
  async abort(principal: string, streamId: string): Promise<void> {
    const reader = await this.#running?.clientOf(principal).abort(streamId);
    await reader?.ended;
    const { failure } = reader?.status ?? {};
    if (failure !== undefined && failure.code !== "stream_ended")
      throw new HoldfastError(failure.code, failure.message);
  }

  async #start(process: SimProcess): Promise<void> {
    const { world, provider, limits, retentionMs, shared } = this.#options;
    const { env } = process;
    const onBug = (bug: unknown): void => {
      if (process.alive) world.fail(bug);
    };
    const sealing = nodeSealing({ randomBytes: (length) => env.randomBytes(length) });
    const { store, tables, blobs: serverBlobs, letters, neighbours } = await this.#openStore(process);
    const models = provider.modelsOf(process);
    const server = createServer({
      store,
      blobs: serverBlobs,
      sealing,
      application: createAgent({ models, environment: env }),
      environment: env,
      ...given({ letters }),
      ...(shared === undefined ? {} : { hostId: shared.name, leaseMs: LEASE_MS }),
      host: {
        retention: { retentionMs, tombstoneMs: 100 * retentionMs },
        heartbeatIntervalMs: HEARTBEAT_MS,
        clientSilenceMs: 4 * HEARTBEAT_MS,
        restMs: limits.restMs,
      },
      sweepIntervalMs: 5 * 60_000,
      onBug,
    });
    const transport = memoryTransport(this.#observed(server), {
      principalOf: (principal) => principal,
      blobs: server.blobs,
      countsItself: true,
      environment: env,
    });
    const sealer = sealing.homeSealer(this.#homeKey);
    const clients = new Map<string, Client>();
    const newClient = (principal: string): Client =>
      new Client({
        connect: transport.connect,
        blobs: transport.blobs,
        sealing,
        homeKey: this.#homeKey,
        principal,
        journals: "none",
        environment: env,
        credentials: () => Promise.resolve(principal),
        stream: { ...GATEWAY_STREAMS, heartbeatIntervalMs: HEARTBEAT_MS },
        onBug,
      });
    const clientOf = (principal: string): Client => {
      const client = clients.get(principal) ?? newClient(principal);
      clients.set(principal, client);
      return client;
    };
    const gateway = new Gateway({
      clientOf,
      tables,
      sealer,
      secret: this.#secret,
      models: () => models.list(),
      resolveModel: (name) => models.list().find(({ id }) => id === name)?.id,
      limits,
      ...given({ neighbours }),
      environment: env,
      onBug,
    });
    const cleanUp = (): void => {
      gateway.cleanUp().catch(onBug);
      env.after(CLEAN_UP_MS, cleanUp);
    };
    env.after(CLEAN_UP_MS, cleanUp);
    await gateway.start();
    const close = async (): Promise<void> => {
      await gateway.close();
      await Promise.all([...clients.values()].map((client) => client.close()));
      await server.shutdown();
    };
    if (!process.alive) return;
    this.#running = { process, gateway, clientOf, close };
    this.runsSinceMs = world.nowMs;
    world.trace("gateway", "takes requests in life", process.incarnation);
  }

  async #openStore(process: SimProcess) {
    const { shared, logEnd = "log_kept", world } = this.#options;
    if (shared === undefined) {
      const { log, tables, blobs } = this.#database.open(process);
      if (process.incarnation > 1) world.hit(`gateway.restarted.${logEnd}`);
      const store = await openLogStreamStore(log, { now: () => process.env.now(), ...YOUNGEST[logEnd] });
      return { store, tables, blobs, letters: undefined, neighbours: undefined };
    }
    const { streams, tables, blobs, letters } = await shared.database.open(process);
    return { store: streams, tables, blobs, letters, neighbours: await joinSimulated(tables, process) };
  }

  /** Notes which conversation each new stream is for. */
  #observed({ accept }: Server): Accept {
    return (meta, wire) => {
      const handler = accept(meta, wire);
      return {
        received: (frame) => {
          this.#note(meta, frame);
          handler.received(frame);
        },
        drained: () => handler.drained(),
        closed: (reason) => handler.closed(reason),
      };
    };
  }

  #note({ principal, idempotencyKey }: AcceptedMeta, frame: ClientFrame): void {
    if (frame.kind !== "attach") return;
    const isWoken =
      frame.role === "writer" && (frame.writerEpoch ?? 0) === 0 && frame.firstChunk === undefined;
    if (isWoken && this.streams.get(idempotencyKey)?.life === this.life)
      this.#options.world.hit("gateway.sometimes.woken");
    if (frame.firstChunk === undefined) return;
    const { message } = fromBinary(AgentClientMessageSchema, frame.firstChunk);
    if (message.case !== "runRequest") return;
    this.streams.set(idempotencyKey, {
      life: this.life,
      principal,
      conversationId: message.value.conversationId,
    });
  }
}
