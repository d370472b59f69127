/**
 * The server: takes connections and hands them to the streams they ask for.
 *
 * Thin: what a connection may do is decided by the machines in `core`. Whatever a connection says
 * before its attach has been decided waits in a short queue.
 */
import * as host from "../core/host-state.ts";
import type { StreamName } from "../core/stream-state.ts";
import { HoldfastError } from "../protocol/errors.ts";
import type { AttachFrame, ClientFrame, ServerFrame } from "../protocol/frames.ts";
import type { SyncSealing } from "../sealing/index.ts";
import type { StreamStore } from "../store/stream-store.ts";
import { type Environment, SteadyClock, systemEnvironment } from "../transport/environment.ts";
import type { Accept, AcceptedMeta, Handler, Wire } from "../transport/transport.ts";
import type { Application } from "./application.ts";
import { DegradedStream } from "./degraded.ts";
import type { HostContext } from "./hosted.ts";
import { Keeper } from "./keeper.ts";

export interface ServerOptions {
  readonly store: StreamStore;
  readonly sealing: SyncSealing;
  readonly application: Application;
  readonly environment?: Environment;
  readonly host?: Partial<host.Options>;
  /** Names this node among those that share the store. */
  readonly hostId?: string;
  /** How long the other nodes wait when this one falls silent. */
  readonly leaseMs?: number;
  /** How often expired streams are looked for. */
  readonly sweepIntervalMs?: number;
  readonly onBug?: (bug: unknown) => void;
}

export interface Server {
  /** The server's half of any transport. */
  readonly accept: Accept;
  /** Forgets events before `eventFloor` of a stream that has ended and that this node still has in hand. */
  trim(name: StreamName, eventFloor: number): void;
  /** Tells everybody to come back, gives the leases back, stops. Nothing acknowledged is lost. */
  shutdown(): Promise<void>;
}

/** A client has nothing to say between its attach and its welcome but heartbeats and an abort. */
const EARLY_FRAMES_MAX = 16;

export function createServer(options: ServerOptions): Server {
  const environment = options.environment ?? systemEnvironment();
  const context: HostContext = {
    store: options.store,
    sealing: options.sealing,
    environment,
    clock: new SteadyClock(environment),
    application: options.application,
    options: { ...host.DEFAULTS, ...options.host },
    onBug: options.onBug ?? (() => undefined),
  };
  const keeper = new Keeper(context, {
    hostId: options.hostId ?? "local",
    leaseMs: options.leaseMs ?? 15_000,
  });
  const timers = new Set<() => void>();
  let isStopped = false;
  let connections = 0;

  repeat(context.options.heartbeatIntervalMs, () => keeper.tick());
  repeat(options.sweepIntervalMs ?? 60_000, () => {
    // A sweep that fails is repeated by the next one; a failed store shows where it hurts.
    keeper.sweep().catch(() => undefined);
  });

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
      const connection = new ServerConnection(context, keeper, meta, wire, ++connections);
      if (isStopped)
        connection.refuse(new HoldfastError("unavailable", "this server is shutting down; come back"));
      return connection;
    },
    trim: (name, eventFloor) => keeper.get(name)?.trim(eventFloor),
    shutdown: async () => {
      isStopped = true;
      for (const cancel of timers) cancel();
      await keeper.shutdown();
    },
  };
}

/** Where the frames of a connection go once its attach has been decided. */
interface Target {
  received(frame: ClientFrame): void;
  drained(): void;
  closed(): void;
}

class ServerConnection implements Handler<ClientFrame> {
  readonly #context: HostContext;
  readonly #keeper: Keeper;
  readonly #meta: AcceptedMeta;
  readonly #wire: Wire<ServerFrame>;
  readonly #number: number;
  #target: Target | undefined;
  #early: ClientFrame[] | undefined;
  #isClosed = false;

  constructor(
    context: HostContext,
    keeper: Keeper,
    meta: AcceptedMeta,
    wire: Wire<ServerFrame>,
    number: number,
  ) {
    this.#context = context;
    this.#keeper = keeper;
    this.#meta = meta;
    this.#wire = wire;
    this.#number = number;
  }

  received(frame: ClientFrame): void {
    if (this.#isClosed) return;
    if (this.#target !== undefined) {
      this.#target.received(frame);
    } else if (this.#early !== undefined) {
      this.#early.push(frame);
      if (this.#early.length > EARLY_FRAMES_MAX)
        this.refuse(new HoldfastError("invalid_frame", "wait for the welcome"));
    } else if (frame.kind === "attach") {
      this.#early = [];
      void this.#attach(frame);
    } else {
      this.refuse(new HoldfastError("invalid_frame", "a connection begins with an attach"));
    }
  }

  drained(): void {
    this.#target?.drained();
  }

  closed(): void {
    this.#isClosed = true;
    this.#target?.closed();
  }

  async #attach(frame: AttachFrame): Promise<void> {
    try {
      const found = await this.#keeper.find(this.#meta, frame);
      if (this.#isClosed) return;
      const name = { principal: this.#meta.principal, idempotencyKey: this.#meta.idempotencyKey };
      if (found.kind === "degraded") {
        const stream = new DegradedStream(this.#context, name, this.#wire, frame.firstChunk);
        this.#target = {
          received: (next) => stream.received(next),
          drained: () => undefined,
          closed: () => stream.closed(),
        };
      } else {
        const { hosted, resumed } = found;
        if (hosted.isDropped) throw new HoldfastError("unavailable", "the stream has just moved; come back");
        this.#target = {
          received: (next) => hosted.received(this.#number, next),
          drained: () => hosted.drained(this.#number),
          closed: () => hosted.closed(this.#number),
        };
        hosted.attach(this.#number, this.#wire, frame, resumed);
      }
      for (const early of this.#early ?? []) this.#target.received(early);
    } catch (cause) {
      // What a damaged or failed store says is no verdict on the stream: the client comes back.
      const isVerdict = cause instanceof HoldfastError && cause.code !== "stream_failed";
      this.refuse(isVerdict ? cause : new HoldfastError("unavailable", "the store failed", { cause }));
    }
  }

  refuse(error: HoldfastError): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#wire.write([
      { kind: "error", code: error.code, message: error.message, retryAfterMs: error.retryAfterMs },
    ]);
    this.#wire.end();
  }
}
