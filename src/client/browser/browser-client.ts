/**
 * A client among tabs: the same as any other, and it can join a stream that another tab writes to.
 *
 * Tabs of one origin share their journals, so a stream has one writer among them and any number of
 * readers. When the writing tab goes away, a tab that has joined becomes the writer and continues from
 * the journal, as after a reload.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import type { Sealer, WebKey } from "../../sealing/index.ts";
import type { ClientOptions } from "../client-options.ts";
import { Client } from "../client.ts";
import type { ClientStream } from "../stream.ts";
import type { BrowserDatabase } from "./database.ts";
import type { WebWriterLocks } from "./writer-locks.ts";

export interface JoinedStream {
  readonly role: "writer" | "reader";
  /** A writer begins at its last snapshot (`restored`), a reader at the beginning of the log. */
  readonly stream: ClientStream;
}

export type BrowserHomeKeys = Uint8Array | WebKey;

/** Where a client keeps what is no journal: conversations and their blobs. */
interface Shelf {
  readonly database: BrowserDatabase;
  readonly sealer: Sealer;
}

interface TabParts {
  /** Undefined when nothing is kept: then no other tab can have it either. */
  readonly writerLocks: WebWriterLocks | undefined;
  readonly shelf: Shelf | undefined;
  readonly release: () => void;
}

export class BrowserClient extends Client<BrowserHomeKeys> {
  /** For `storesOf(client)`; undefined with persistence off. */
  readonly shelf: Shelf | undefined;
  readonly #parts: TabParts;
  #closing: Promise<void> | undefined;

  constructor(options: ClientOptions<BrowserHomeKeys>, parts: TabParts) {
    super(options);
    this.shelf = parts.shelf;
    this.#parts = parts;
  }

  /**
   * A stream in whatever role is free: as its writer when this origin has its journal and no other tab
   * writes, else as a reader, and then as its writer once that tab is gone. Each comes as a stream of its
   * own, to be shown anew from its beginning; the one before has ended by then. Leaving the loop leaves the stream.
   *
   *     for await (const { role, stream } of client.join(idempotencyKey)) {
   *       for await (const event of stream.events) show(event);
   *     }
   */
  async *join(idempotencyKey: string): AsyncGenerator<JoinedStream, void, undefined> {
    const writer = await this.#resumeIfFree(idempotencyKey);
    if (writer !== undefined) {
      yield* leaving(writer, "writer");
      return;
    }
    const reader = await this.follow(idempotencyKey);
    const over = new AbortController();
    void reader.ended.then(() => over.abort());
    const promotion = this.#promote(idempotencyKey, reader, over.signal);
    // Awaited below, if the caller reads on.
    promotion.catch(() => undefined);
    let isRead = false;
    try {
      yield* leaving(reader, "reader");
      isRead = true;
    } finally {
      over.abort();
      if (!isRead) void promotion.then((promoted) => promoted?.leave()).catch(() => undefined);
    }
    const promoted = await promotion;
    if (promoted !== undefined) yield* leaving(promoted, "writer");
  }

  /** Leaves all streams, then lets go of connection, database and locks. The streams can be resumed. */
  override close(): Promise<void> {
    this.#closing ??= super.close().then(() => this.#parts.release());
    return this.#closing;
  }

  /** The stream as its writer, once the tab that writes to it is gone; undefined when it has ended by then, or the signal fires. */
  async inherit(idempotencyKey: string, signal: AbortSignal): Promise<ClientStream | undefined> {
    const { writerLocks } = this.#parts;
    if (writerLocks === undefined || !(await writerLocks.reserve(idempotencyKey, signal))) return undefined;
    try {
      return await this.#resumeIfFree(idempotencyKey);
    } finally {
      writerLocks.cancel(idempotencyKey);
    }
  }

  /** Waits for the writing tab to go, and then continues in its place. */
  async #promote(
    idempotencyKey: string,
    reader: ClientStream,
    signal: AbortSignal,
  ): Promise<ClientStream | undefined> {
    const writer = await this.inherit(idempotencyKey, signal);
    // A stream that has ended is read to its end instead.
    if (writer !== undefined) reader.leave();
    return writer;
  }

  async #resumeIfFree(idempotencyKey: string): Promise<ClientStream | undefined> {
    try {
      return await this.resume(idempotencyKey);
    } catch (cause) {
      if (cause instanceof HoldfastError && ONLY_TO_READ.has(cause.code)) return undefined;
      throw cause;
    }
  }
}

/** Another writes, it is over, or it is not ours. */
const ONLY_TO_READ: ReadonlySet<string> = new Set(["busy", "fenced", "stream_ended", "not_found"]);

async function* leaving(
  stream: ClientStream,
  role: JoinedStream["role"],
): AsyncGenerator<JoinedStream, void, undefined> {
  try {
    yield { role, stream };
    // A caller that only hands it on does not mean to leave it.
    await stream.ended;
  } finally {
    stream.leave();
  }
}
