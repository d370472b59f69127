/**
 * A whole transport inside one process: what one side writes, the other side receives.
 *
 * Not a stand-in for a network but a transport of its own (the gateway uses it to reach a server in
 * the same process), so it keeps every promise of `transport.ts`: frames arrive in order and never
 * inside the call that wrote them, bytes wait until they were delivered, each side hears `closed`
 * once and nothing after it. Its connections can be cut, delayed and made to stutter from outside.
 *
 * Invariant: per direction, what arrives is a prefix of what was written (with repeats only where
 * `duplicateNext` asked for them).
 */
import { HoldfastError } from "../protocol/errors.ts";
import type { ClientFrame, ServerFrame } from "../protocol/frames.ts";
import { LIMITS } from "../protocol/limits.ts";
import { PassingSet } from "../protocol/passing.ts";
import { type Environment, systemEnvironment } from "./environment.ts";
import type {
  Accept,
  AcceptedMeta,
  BlobCalls,
  ClientMeta,
  Connect,
  ConnectionMeta,
  Handler,
  Wire,
} from "./transport.ts";

export interface MemoryTransportOptions {
  /** Whose connection it is; undefined refuses it with `unauthenticated`. */
  readonly principalOf: (credentials: string | undefined) => string | undefined;
  /** The blobs of the server, as it sees them. Without them every blob is `not_found`. */
  readonly blobs?: ServedBlobs | undefined;
  /** The connecting side bounds its principals' open streams itself. Default: the server does. */
  readonly countsItself?: boolean;
  /** Needed only for `delay`. Default: the system's. */
  readonly environment?: Environment;
}

/** A server's blobs; each call names its principal and stream. */
export interface ServedBlobs {
  put(meta: AcceptedMeta, id: string, bytes: Uint8Array): Promise<unknown>;
  get(meta: AcceptedMeta, id: string): Promise<Uint8Array>;
  forget(meta: AcceptedMeta): Promise<unknown>;
}

export type Direction = "to_client" | "to_server";

/** A connection as seen from outside both ends. */
export interface MemoryConnection {
  readonly meta: ConnectionMeta;
  /** Both sides hear `closed` with `connection_lost`; what was under way is lost. */
  cut(): void;
  /** What is written from now on arrives this much later. */
  delay(delayMs: number): void;
  /** The next frame written in this direction arrives twice. */
  duplicateNext(direction: Direction): void;
}

export interface MemoryTransport {
  readonly connect: Connect;
  readonly blobs: BlobCalls;
  /** Those that are not closed on both sides. */
  readonly connections: Iterable<MemoryConnection> & { readonly size: number };
}

/** What a frame takes on the wire, roughly: its body and a small head. Good enough for backpressure. */
export function frameBytes(frame: ClientFrame | ServerFrame): number {
  switch (frame.kind) {
    case "chunk":
    case "event":
      return FRAME_HEAD_BYTES + frame.body.length;
    case "attach":
      return FRAME_HEAD_BYTES + (frame.firstChunk?.length ?? 0);
    default:
      return FRAME_HEAD_BYTES;
  }
}

const FRAME_HEAD_BYTES = 32;

/** Travels behind the last frame. */
const END = Symbol("end of the connection");

export function memoryTransport(accept: Accept, options: MemoryTransportOptions): MemoryTransport {
  const environment = options.environment ?? systemEnvironment();
  const counting = options.countsItself === true ? { countsItself: true } : {};
  const connections = new PassingSet<MemoryConnection>();

  function connect(meta: ClientMeta, handler: Handler<ServerFrame>): Wire<ClientFrame> {
    const client = new End<ServerFrame, ClientFrame>(environment);
    const server = new End<ClientFrame, ServerFrame>(environment);
    client.peer = server;
    server.peer = client;
    client.handler = handler;

    const loseBoth = (reason: HoldfastError): void => {
      client.lose(reason);
      server.lose(reason);
    };
    const connection: MemoryConnection = {
      meta,
      cut() {
        loseBoth(new HoldfastError("connection_lost", "the connection was cut"));
      },
      delay(delayMs) {
        client.delayMs = delayMs;
        server.delayMs = delayMs;
      },
      duplicateNext(direction) {
        (direction === "to_server" ? client : server).duplicating = true;
      },
    };
    connections.add(connection);
    const over = (): void => {
      if (!client.open && !server.open) connections.delete(connection);
    };
    client.whenClosed(over);
    server.whenClosed(over);

    // The server meets the connection in a turn of its own, ahead of whatever the client writes now.
    queueMicrotask(() => {
      if (!server.open) return;
      const principal = principalOf(options, meta.credentials);
      if (principal === undefined) return loseBoth(refused());
      const { credentials: _, ...said } = meta;
      server.handler = accept({ ...said, principal, ...counting }, server);
    });
    return client;
  }

  return { connect, blobs: memoryBlobs(options), connections };
}

function memoryBlobs(options: MemoryTransportOptions): BlobCalls {
  function served({ credentials, ...said }: ClientMeta, signal: AbortSignal) {
    signal.throwIfAborted();
    const principal = principalOf(options, credentials);
    if (principal === undefined) throw refused();
    if (options.blobs === undefined) throw new HoldfastError("not_found", "this server keeps no blobs");
    return { blobs: options.blobs, meta: { ...said, principal } };
  }
  return {
    // Copies, both ways: neither side may change what the other one has.
    put: async (meta, id, bytes, signal) => {
      const { blobs, meta: accepted } = served(meta, signal);
      await blobs.put(accepted, id, new Uint8Array(bytes));
      signal.throwIfAborted();
    },
    get: async (meta, id, signal) => {
      const { blobs, meta: accepted } = served(meta, signal);
      const bytes = new Uint8Array(await blobs.get(accepted, id));
      signal.throwIfAborted();
      return bytes;
    },
    forget: async (meta, signal) => {
      const { blobs, meta: accepted } = served(meta, signal);
      await blobs.forget(accepted);
      signal.throwIfAborted();
    },
  };
}

function refused(): HoldfastError {
  return new HoldfastError("unauthenticated", "the credentials were not accepted");
}

/** One end of a connection: receives `In`, sends `Out`. Client and server have the same. */
class End<In extends ClientFrame | ServerFrame, Out extends ClientFrame | ServerFrame> implements Wire<Out> {
  /** Until the handler has heard `closed`. */
  open = true;
  handler: Handler<In> | undefined;
  peer: End<Out, In> | undefined;
  delayMs = 0;
  duplicating = false;

  readonly #environment: Environment;
  readonly #underWay: (readonly Out[] | typeof END)[] = [];
  #waitingBytes = 0;
  /** `write` has said so. */
  #isBehind = false;
  #onClosed: () => void = () => {};
  /** Nothing can be written any more, though what was written before may still be under way. */
  #ended = false;
  #lost = false;

  constructor(environment: Environment) {
    this.#environment = environment;
  }

  /** A method: a function that is assigned to a public field is kept with the old objects (decision 240). */
  whenClosed(run: () => void): void {
    this.#onClosed = run;
  }

  write(frames: readonly Out[]): number {
    const [first] = frames;
    if (this.#ended || first === undefined) return this.#told();
    const sent = this.duplicating ? [first, ...frames] : [...frames];
    this.duplicating = false;
    for (const frame of sent) this.#waitingBytes += frameBytes(frame);
    this.#send(sent);
    return this.#told();
  }

  /** Reports 0 bytes below the bound of every sender: they are delivered in this turn of the event loop, and no `drained` need follow. */
  #told(): number {
    if (this.#waitingBytes <= LIMITS.sendQueueBytesMax / 4) return 0;
    this.#isBehind = true;
    return this.#waitingBytes;
  }

  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#send(END);
  }

  /** Forgets what is under way and tells the handler in a turn of its own. */
  lose(reason: HoldfastError): void {
    this.#ended = true;
    this.#lost = true;
    this.#underWay.length = 0;
    this.#waitingBytes = 0;
    queueMicrotask(() => this.#close(reason));
  }

  #send(item: readonly Out[] | typeof END): void {
    this.#underWay.push(item);
    // Each send brings one delivery, and each delivery takes the oldest item: delays may change, order not.
    if (this.delayMs > 0) this.#environment.after(this.delayMs, this.#deliver);
    else queueMicrotask(this.#deliver);
  }

  readonly #deliver = (): void => {
    const item = this.#underWay.shift();
    if (item === undefined) return;
    if (item === END) return this.peer?.receiveEnd();
    for (const frame of item) {
      if (this.#lost) return;
      this.#waitingBytes -= frameBytes(frame);
      if (this.peer?.open === true) this.peer.handler?.received(frame);
    }
    if (!this.open || this.#lost || this.#waitingBytes > 0 || !this.#isBehind) return;
    this.#isBehind = false;
    this.handler?.drained();
  };

  /** Answers with an end of its own, so the other side closes behind whatever is still under way to it. */
  receiveEnd(): void {
    this.end();
    this.#close(undefined);
  }

  #close(reason: HoldfastError | undefined): void {
    if (!this.open) return;
    this.open = false;
    this.#onClosed();
    this.handler?.closed(reason);
  }
}

/** Credentials that cannot be read are no credentials. */
function principalOf(options: MemoryTransportOptions, credentials: string | undefined): string | undefined {
  try {
    return options.principalOf(credentials);
  } catch {
    return undefined;
  }
}
