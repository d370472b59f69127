/**
 * The server: takes connections and hands them to the streams they ask for.
 *
 * Thin: what a connection may do is decided by the machines in `core`.
 */
import * as host from "../core/host-state.ts";
import { counted } from "../core/standstill.ts";
import type { StreamName } from "../core/stream-state.ts";
import type { SyncSealing } from "../sealing/index.ts";
import type { BlobStore } from "../store/blob-store.ts";
import type { Letters } from "../store/letters.ts";
import type { StreamStore } from "../store/stream-store.ts";
import { type Environment, SteadyClock, systemEnvironment } from "../transport/environment.ts";
import type { Accept, AcceptedMeta } from "../transport/transport.ts";
import type { Application } from "./application.ts";
import { newServerCounters, type ServerCounters } from "./counters.ts";
import type { HostContext, TurnStallNews } from "./host-context.ts";
import { createKeeper } from "./keeper.ts";
import { checkStreamKey, serverConnection, type ServerConnection } from "./connection.ts";
import { type ConversationLimits, Conversations } from "./conversations.ts";
import { type StreamBlobs, streamBlobs } from "./stream-blobs.ts";
import { PassingSet } from "../protocol/passing.ts";

export interface ServerOptions {
  readonly store: StreamStore;
  readonly sealing: SyncSealing;
  readonly application: Application;
  /** Where the blobs of streams lie. Without it this server has no blobs. */
  readonly blobs?: BlobStore;
  /** Of conversations that this server keeps. */
  readonly conversations?: Partial<ConversationLimits>;
  /** To be shared with others that count for the same server, the store's log for one. */
  readonly counters?: ServerCounters;
  readonly environment?: Environment;
  readonly host?: Partial<host.Options>;
  /** Where several nodes share the store: by which they speak to each other. Without it a stream that another node runs is refused. */
  readonly letters?: Letters;
  /** Names this node among those that share the store. */
  readonly hostId?: string;
  /** How long the other nodes wait when this one falls silent. */
  readonly leaseMs?: number;
  /** Asked before a stream is opened by an API key that has tokens a day: rejects when it has used them, and notes the payer. Default: no limit counts. */
  readonly admit?: HostContext["admit"];
  /** How often expired streams are looked for. */
  readonly sweepIntervalMs?: number;
  /** Called with failed assertions and with what the application throws. Default: a process warning. */
  readonly onBug?: (bug: unknown) => void;
  /** Called when a running turn stands still, and when it moves again: for a log. Default: it is only counted. */
  readonly onStall?: (news: TurnStallNews) => void;
}

export interface Server {
  /** The server's half of any transport. */
  readonly accept: Accept;
  readonly blobs: StreamBlobs | undefined;
  readonly counters: ServerCounters;
  /** How many streams this node has in hand. */
  readonly hostedCount: number;
  /** Rejects when the store cannot be used. */
  probe(): Promise<void>;
  /** Forgets events before `eventFloor` of a stream that has ended and that this node still has in hand. */
  trim(name: StreamName, eventFloor: number): void;
  /** Tells every client to reconnect, gives the leases back, stops. Nothing acknowledged is lost. */
  shutdown(): Promise<void>;
}

/** A server that lives no longer than its store: `lasting-server.ts` replaces it when the store has failed. */
export interface StandingServer extends Server {
  readonly connectionCount: number;
  /** Ends what runs of a principal here, at its providers too. */
  stopAll(principal: string): void;
  /**
   * The store has failed for good. Hosted streams stop at their durable head; from then on there are degraded streams
   * only, and those are new ones (D5).
   */
  loseStore(): void;
  /** Another server stands on the store now. Degraded streams run here to their end; other clients are sent there. */
  stepAside(): void;
}

export function createServer(options: ServerOptions): StandingServer {
  const environment = options.environment ?? {
    ...systemEnvironment(),
    // Behind what the turn hands to the system: a request to a provider leaves before its record is sealed.
    turnOver: (run) => process.nextTick(() => process.nextTick(run)),
  };
  const counters = options.counters ?? newServerCounters();
  const warnOfBug = options.onBug ?? warn;
  const onBug = (bug: unknown): void => {
    counters.bugs++;
    warnOfBug(bug);
  };
  const conversations =
    options.blobs && new Conversations(options.blobs, options.sealing, options.conversations);
  const blobs = blobsOf(options, conversations, (meta) => keeper.check(meta));
  const context: HostContext = {
    store: options.store,
    letters: options.letters,
    sealing: options.sealing,
    environment,
    clock: new SteadyClock(environment),
    application: options.application,
    blobs,
    admit: options.admit,
    options: { ...host.DEFAULTS, ...options.host, gathers: environment.turnOver !== undefined },
    counters,
    onBug,
    onStall: (news) => {
      counters.stalls.server = counted(counters.stalls.server, news);
      try {
        options.onStall?.(news);
      } catch (bug) {
        onBug(bug);
      }
    },
  };
  const lease = { hostId: options.hostId ?? "local", leaseMs: options.leaseMs ?? 15_000 };
  const keeper = createKeeper(context, lease, options.blobs, conversations);
  const timers = new Set<() => void>();
  let isStopped = false;
  const connections = new PassingSet<ServerConnection>();
  let accepted = 0;

  const { heartbeatIntervalMs } = context.options;
  // A lease is renewed with the heartbeats: one that is shorter makes them more frequent.
  repeat(lease.leaseMs < heartbeatIntervalMs ? lease.leaseMs / 3 : heartbeatIntervalMs, () => keeper.tick());
  repeat(options.sweepIntervalMs ?? 60_000, () => {
    // A sweep that fails is repeated by the next one; a failed store shows where it hurts.
    keeper.sweep().catch(() => undefined);
  });

  function stopTimers(): void {
    for (const cancel of timers) cancel();
    timers.clear();
  }

  function repeat(intervalMs: number, run: () => void): void {
    const cancel = environment.after(intervalMs, () => {
      timers.delete(cancel);
      repeat(intervalMs, run);
      run();
    });
    timers.add(cancel);
  }

  return {
    accept: (meta, wire) => {
      const connection: ServerConnection = serverConnection(context, keeper, meta, wire, ++accepted, () =>
        connections.delete(connection),
      );
      if (isStopped) connection.shutdown();
      else connections.add(connection);
      return connection;
    },
    blobs,
    counters,
    get hostedCount() {
      return keeper.hostedCount;
    },
    probe: async () => {
      // A failed store refuses every call, whichever stream it is about (F5).
      await options.store.countOpen("");
    },
    get connectionCount() {
      return connections.size;
    },
    loseStore: () => {
      stopTimers();
      keeper.loseStore();
    },
    stopAll: (principal) => keeper.dropAll(principal),
    stepAside: () => {
      for (const connection of connections) connection.refuseUnattached();
    },
    trim: (name, eventFloor) => keeper.get(name)?.trim(eventFloor),
    shutdown: async () => {
      isStopped = true;
      stopTimers();
      await keeper.shutdown();
      for (const connection of connections) connection.shutdown();
    },
  };
}

function blobsOf(
  { blobs, sealing }: ServerOptions,
  conversations: Conversations | undefined,
  check: (meta: AcceptedMeta) => Promise<void>,
): StreamBlobs | undefined {
  if (blobs === undefined || conversations === undefined) return undefined;
  return streamBlobs(blobs, sealing, conversations, async (meta) => {
    // A stream key of another length would be an assertion of the sealing.
    checkStreamKey(meta.streamKey);
    await check(meta);
  });
}

/** Without a listener bugs must not vanish either. */
function warn(bug: unknown): void {
  process.emitWarning(bug instanceof Error ? bug : String(bug), { code: "HOLDFAST_BUG" });
}
