/**
 * One simulated connection: two ends, each with what it has sent and the other has not yet received.
 *
 * One idea: a direction is a queue, and every arrival takes the oldest item. Delays may be drawn at
 * will, in any interleaving with the rest of the world, and order within the direction still holds, unless clients send
 * requests of their own.
 * A cut does not recall what is under way: it arrives until that side has heard of the cut.
 *
 * Invariant: a handler hears `closed` at most once and nothing after it; a dead process hears nothing.
 */
import { HoldfastError } from "../../../src/protocol/errors.ts";
import type { ClientFrame, ServerFrame } from "../../../src/protocol/frames.ts";
import { frameBytes } from "../../../src/transport/memory.ts";
import type { ClientMeta, Handler, Wire } from "../../../src/transport/transport.ts";
import type { SimNetwork } from "./network.ts";
import type { SimProcess } from "./process.ts";

export type AnyFrame = ClientFrame | ServerFrame;
export type SideName = "client" | "server";

/** Travel like frames: the server meeting the connection, and its orderly end. */
const ACCEPT = Symbol("accept");
const END = Symbol("end");

/** How many client frames a ghost repeats at most: the attach and what was sent along with it. */
const GHOST_FRAMES_MAX = 4;

export interface CutOptions {
  /** When the side hears of it; undefined for never. Drawn when left out. */
  readonly clientHearsMs?: number | undefined;
  readonly serverHearsMs?: number | undefined;
}

export class SimConnection {
  readonly id: number;
  readonly meta: ClientMeta;
  /** Which client's which stream: late frames are those of an older connection of the same. */
  readonly stream: string;
  readonly client: End<ServerFrame, ClientFrame>;
  readonly server: End<ClientFrame, ServerFrame>;
  /** A ghost's answers are read by nobody, and its own frames suffer nothing more. */
  readonly ghost: boolean;
  /** Set while the first client frames are being remembered for a ghost. */
  recording: ClientFrame[] | undefined;
  /** In a partition: frames wait for its end, as TCP sends again, instead of being lost. */
  waitsForHealing = false;

  constructor(
    network: SimNetwork,
    id: number,
    meta: ClientMeta,
    client: SimProcess,
    server: SimProcess,
    ghost: boolean,
  ) {
    this.id = id;
    this.meta = meta;
    this.stream = `${client.name} ${meta.idempotencyKey}`;
    this.ghost = ghost;
    this.client = new End(network, this, client, "client", (frame) => {
      if (this.recording !== undefined && this.recording.length < GHOST_FRAMES_MAX)
        this.recording.push(frame);
      return network.recodeClient(frame, meta.idempotencyKey);
    });
    this.server = new End(network, this, server, "server", (frame) => network.recodeServer(frame));
    this.client.peer = this.server;
    this.server.peer = this.client;
  }

  get open(): boolean {
    return this.client.open || this.server.open;
  }

  /** Nothing written from now on arrives; each side hears of it in its own time. */
  cut(options: CutOptions = {}): void {
    this.client.network.cut(this, options);
  }

  /** The side never hears of it. */
  halfOpen(unaware: SideName): void {
    this.cut(unaware === "client" ? { clientHearsMs: undefined } : { serverHearsMs: undefined });
  }

  /** What the side sends trickles from now on; `Infinity` for full speed. */
  slow(sender: SideName, bytesPerMs: number): void {
    if (bytesPerMs < Number.POSITIVE_INFINITY) {
      this.client.network.world.hit(sender === "server" ? "net.slow_reader" : "net.slow_writer");
    }
    this[sender].slow(bytesPerMs);
  }

  loseNext(sender: SideName): void {
    this[sender].losing++;
  }

  duplicateNext(sender: SideName): void {
    this[sender].duplicating++;
  }
}

/** One end: receives `In`, sends `Out`. Both ends are the same code. */
export class End<In extends AnyFrame, Out extends AnyFrame> implements Wire<Out> {
  readonly network: SimNetwork;
  readonly connection: SimConnection;
  readonly process: SimProcess;
  readonly name: SideName;
  peer: End<Out, In> | undefined;
  handler: Handler<In> | undefined;
  /** Until the handler has heard `closed`. */
  open = true;
  /** What this side writes goes nowhere, and it does not know. */
  unheard = false;
  losing = 0;
  duplicating = 0;

  /** Called when the peer's process meets the connection. */
  #accept: (() => void) | undefined;
  readonly #underWay: (Out | typeof ACCEPT | typeof END)[] = [];
  readonly #unsent: (Out | typeof END)[] = [];
  #unsentBytes = 0;
  #bytesPerMs = Number.POSITIVE_INFINITY;
  #sending = false;
  #lastArrivalMs = 0;
  #attachedMs = 0;
  #ended = false;
  #lostLast = false;

  /** What the wire makes of a frame: through the production codec and back, where that is on. */
  readonly #prepare: (frame: Out) => Out;

  constructor(
    network: SimNetwork,
    connection: SimConnection,
    process: SimProcess,
    name: SideName,
    prepare: (frame: Out) => Out,
  ) {
    this.network = network;
    this.connection = connection;
    this.process = process;
    this.name = name;
    this.#prepare = prepare;
  }

  write(frames: readonly Out[]): number {
    if (!this.open || this.#ended) return 0;
    return this.process.effect("wire.write", () => this.#write(frames), 0);
  }

  end(): void {
    if (!this.open || this.#ended) return;
    this.process.effect("wire.end", () => this.#end(), undefined);
  }

  /** Travels ahead of every frame. */
  sendAccept(accept: () => void): void {
    this.#accept = accept;
    this.#launch(ACCEPT);
  }

  /** The handler hears it after `delayMs`, if its process can hear by then. */
  closeAfter(delayMs: number, reason: HoldfastError | undefined): void {
    this.network.world.enqueue(delayMs, () => this.close(reason), undefined, this.process);
  }

  close(reason: HoldfastError | undefined): void {
    if (!this.open) return;
    this.open = false;
    if (this.#lostLast) this.network.world.hit("net.lost_last_frame");
    this.#forgetUnsent();
    this.network.world.trace(this.process.name, "closed", this.connection.id, reason?.code ?? "in order");
    this.network.closed(this.connection);
    this.handler?.closed(reason);
  }

  /** What is written from now on, or still unsent, is lost. Bytes pile up, as in a socket nobody answers. */
  becomeUnheard(): void {
    this.unheard = true;
    this.#unsent.length = 0;
    // Its end was among what is lost: whoever ended must still hear that it is over.
    if (this.#ended) this.closeAfter(this.network.random.int(1_000), undefined);
  }

  /** The process died: nobody is left to hear `closed`. */
  abandon(): void {
    this.open = false;
    this.becomeUnheard();
    this.#forgetUnsent();
    this.network.closed(this.connection);
  }

  slow(bytesPerMs: number): void {
    this.#bytesPerMs = bytesPerMs;
    if (bytesPerMs === Number.POSITIVE_INFINITY) this.network.world.enqueue(0, this.#flush);
  }

  #write(frames: readonly Out[]): number {
    for (const written of frames) {
      const frame = this.#prepare(written);
      this.network.perhapsCut(this.connection);
      const bytes = frameBytes(frame);
      if (this.unheard) this.#unsentBytes += bytes;
      else if (this.#bytesPerMs === Number.POSITIVE_INFINITY && this.#unsent.length === 0)
        this.#depart(frame);
      else {
        this.#unsentBytes += bytes;
        this.#unsent.push(frame);
        this.#trickle();
      }
    }
    if (this.#unsentBytes > 0) this.network.world.hit("net.backpressure");
    return this.#unsentBytes;
  }

  #end(): void {
    this.#ended = true;
    if (this.unheard) return this.closeAfter(this.network.random.int(1_000), undefined);
    if (this.#unsent.length > 0) this.#unsent.push(END);
    else this.#departEnd();
  }

  /** Nobody waits for the peer here: it may be gone, and whoever ended has nothing more to hear. */
  #departEnd(): void {
    this.#launch(END);
    this.closeAfter(this.network.delayMs(), undefined);
  }

  #trickle(): void {
    const next = this.#unsent[0];
    if (this.#sending || next === undefined) return;
    this.#sending = true;
    const bytes = next === END ? 0 : frameBytes(next);
    this.network.world.enqueue(bytes / this.#bytesPerMs, this.#sendOne);
  }

  readonly #sendOne = (): void => {
    this.#sending = false;
    this.#takeUnsent();
    this.#trickle();
  };

  readonly #flush = (): void => {
    while (this.#unsent.length > 0) this.#takeUnsent();
  };

  #takeUnsent(): void {
    const next = this.#unsent.shift();
    if (next === undefined) return;
    if (next === END) return this.#departEnd();
    this.#unsentBytes -= frameBytes(next);
    this.#depart(next);
    if (this.#unsentBytes > 0) return;
    this.process.notify(() => {
      if (!this.open || this.handler === undefined) return;
      this.network.world.hit("net.drained");
      this.handler.drained();
    });
  }

  #depart(frame: Out): void {
    const { world } = this.network;
    const heartbeat = frame.kind === "heartbeat";
    // Only a heartbeat, which counts the frames before it, can tell of a last one that was lost (B7).
    if (this.#lostLast && heartbeat) world.hit("net.lost_last_frame");
    this.#lostLast = false;
    if (this.network.loses(this)) {
      world.hit("net.lost_frame");
      world.trace(this.process.name, "frame lost", frame.kind, this.connection.id);
      this.#lostLast = !heartbeat;
      return;
    }
    this.#launch(frame);
    if (!this.network.repeats(this)) return;
    world.hit("net.duplicated_frame");
    this.#launch(frame);
  }

  #launch(item: Out | typeof ACCEPT | typeof END): void {
    const { network } = this;
    if (network.split && this.name === "client" && typeof item === "object" && item.kind !== "attach")
      return this.#launchAside(item);
    const arrivalMs = Math.max(this.#lastArrivalMs, network.arrivalMs(this.connection));
    if (item === ACCEPT || (typeof item === "object" && item.kind === "attach")) this.#attachedMs = arrivalMs;
    this.#lastArrivalMs = arrivalMs;
    this.#underWay.push(item);
    network.world.enqueue(arrivalMs - network.world.nowMs, this.#arrive, undefined, this.peer?.process);
  }

  /** A request of its own: it waits for nothing but the attach, and the end waits for it. */
  #launchAside(frame: Out): void {
    const { network } = this;
    // Not in the same millisecond: what happens then has no order.
    const arrivalMs = Math.max(this.#attachedMs + 1, network.arrivalMs(this.connection));
    if (arrivalMs < this.#lastArrivalMs) network.world.hit("net.reordered_append");
    this.#lastArrivalMs = Math.max(this.#lastArrivalMs, arrivalMs);
    const arrive = (): void => this.#deliver(frame);
    network.world.enqueue(arrivalMs - network.world.nowMs, arrive, undefined, this.peer?.process);
  }

  readonly #arrive = (): void => {
    const item = this.#underWay.shift();
    if (item !== undefined) this.#deliver(item);
  };

  #deliver(item: Out | typeof ACCEPT | typeof END): void {
    const { peer, network } = this;
    if (peer === undefined || !peer.open) return;
    if (item === ACCEPT) return this.#accept?.();
    if (item === END) return peer.close(undefined);
    network.arrived(this.connection, this.name, item);
    peer.handler?.received(item);
  }

  #forgetUnsent(): void {
    this.#unsent.length = 0;
    this.#unsentBytes = 0;
  }
}

export function lost(message: string): HoldfastError {
  return new HoldfastError("connection_lost", message);
}
