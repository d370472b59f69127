/**
 * Checks of what a server tells anybody: nothing before it is durable, nothing but the log, nothing
 * to strangers (A3, B1, B2, B4, B7, D4, D5, E1, E2).
 *
 * Wraps the production `Accept`: every frame is looked at as it leaves the server.
 */
import type { ClientFrame, ServerFrame } from "../../src/protocol/frames.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import type { Accept, AcceptedMeta, Handler, Wire } from "../../src/transport/transport.ts";
import type { Ledger } from "./ledger.ts";
import { fail } from "./log-checks.ts";
import type { Truth, TrueStream } from "./truth.ts";
import type { SimProcess, World } from "./world/index.ts";

export interface FrameCheckContext {
  readonly world: World;
  readonly truth: Pick<Truth, "of">;
  readonly ledger: Pick<Ledger, "degraded" | "writers">;
  /** Whether this connection has the right principal and stream key. */
  readonly isRightful: (meta: AcceptedMeta) => boolean;
  /** What waits unsent for one reader is bounded by this (F2). */
  readonly waitingBytesMax: number;
  /** The server's process. */
  readonly process: Pick<SimProcess, "alive" | "paused">;
}

export function checkedAccept(context: FrameCheckContext, accept: Accept): Accept {
  return (meta, wire) => {
    const checks = new ConnectionChecks(context, meta);
    const isOver = (): void => void context.ledger.writers.delete(checks);
    const handler = accept(meta, {
      write(frames) {
        for (const frame of frames) watched(context.world, () => checks.sent(frame));
        const waiting = wire.write(frames);
        watched(context.world, () => {
          if (waiting > checks.waitingBytesMax) fail("F2", `${waiting} bytes wait for one reader`);
        });
        return waiting;
      },
      end: () => {
        isOver();
        wire.end();
      },
    } satisfies Wire<ServerFrame>);
    return {
      received(frame) {
        checks.received(frame);
        handler.received(frame);
      },
      drained: () => handler.drained(),
      closed: (reason) => {
        isOver();
        handler.closed(reason);
      },
    } satisfies Handler<ClientFrame>;
  };
}

/** Production code may catch what a check throws; the world must hear of it all the same. */
function watched(world: World, check: () => void): void {
  try {
    check();
  } catch (violation) {
    world.fail(violation);
    throw violation;
  }
}

class ConnectionChecks {
  readonly #context: FrameCheckContext;
  readonly #meta: AcceptedMeta;
  readonly #isRightful: boolean;
  #cursor: number | undefined;
  #isDegraded = false;
  #isWelcomed = false;
  #isFresh = false;
  /**
   * Its stream was gone already when it attached. One that expired since may still be welcomed: a node may have looked at it just before, or have slept behind the
   * commit that made it.
   */
  #wasGone = false;
  /** Of the last chunk that it has brought. */
  #seqno: number | undefined;
  #isWriter = false;
  /** Under this seqno, which is taken, it has sent other content. */
  #forgedSeqno: number | undefined;
  #nextSeqno = 0;

  constructor(context: FrameCheckContext, meta: AcceptedMeta) {
    this.#context = context;
    this.#meta = meta;
    this.#isRightful = context.isRightful(meta);
  }

  received(frame: ClientFrame): void {
    if (frame.kind === "attach") {
      this.#cursor ??= frame.eventId;
      this.#isWriter = frame.role === "writer";
      this.#isFresh = frame.fresh;
      this.#wasGone = this.#stream()?.isGone === true;
      if (frame.firstChunk !== undefined) this.#seqno = 0;
    }
    if (frame.kind === "chunk") this.#seqno = frame.seqno;
    const logged = frame.kind === "chunk" ? this.#stream()?.chunks[frame.seqno] : undefined;
    if (frame.kind !== "chunk" || logged === undefined) return;
    this.#context.world.hit("sometimes.playback");
    const isForged = Buffer.compare(Buffer.from(frame.body), Buffer.from(logged.body)) !== 0;
    this.#forgedSeqno = isForged ? frame.seqno : undefined;
  }

  /** The server knows of a writer of this stream: it must not take the stream away from it (D7). */
  holds(idempotencyKey: string): boolean {
    const { alive, paused } = this.#context.process;
    return this.#meta.idempotencyKey === idempotencyKey && alive && !paused;
  }

  /** A degraded stream keeps nothing that it could send later: it sends all at once, and ends when its reader is too far behind. */
  get waitingBytesMax(): number {
    const { waitingBytesMax } = this.#context;
    return this.#isDegraded ? LIMITS.sendQueueBytesMax + waitingBytesMax : waitingBytesMax;
  }

  sent(frame: ServerFrame): void {
    if (!this.#isRightful) {
      const isRefusal =
        frame.kind === "error" &&
        ["not_found", "overloaded", "unavailable", "connection_lost"].includes(frame.code);
      if (!isRefusal) fail("E1", `a stranger got a ${frame.kind}`);
      this.#context.world.hit("sometimes.stranger_refused");
      return;
    }
    if (!this.#isWelcomed && frame.kind !== "welcome" && frame.kind !== "error") {
      fail("B1", `something came before the welcome: ${frame.kind}`);
    }
    switch (frame.kind) {
      case "welcome":
        this.#welcome(frame);
        return;
      case "event":
        this.#event(frame);
        return;
      case "ack":
        if (this.#isDegraded) fail("D5", "a degraded stream was acknowledged");
        if (frame.seqno >= (this.#forgedSeqno ?? Number.POSITIVE_INFINITY)) {
          fail("A2", "other content under a taken seqno was acknowledged");
        }
        this.#acked(frame.seqno + 1);
        return;
      case "heartbeat":
        if (this.#isDegraded) return;
        this.#acked(frame.nextSeqno);
        if (frame.eventHead !== this.#cursor)
          fail("B7", `a heartbeat names ${frame.eventHead}, sent ${this.#cursor}`);
        if (frame.aborted && this.#stream()?.state.aborted !== true)
          fail("D3", "an abort was told before it was durable");
        return;
      case "error":
        this.#error(frame.code, frame.message);
        return;
      case "durability_lost":
        this.#context.world.hit("sometimes.durability_lost");
        if (frame.head > (this.#stream()?.events.length ?? 0)) fail("D5", "a lost head is ahead of the log");
        return;
    }
  }

  #welcome(frame: Extract<ServerFrame, { kind: "welcome" }>): void {
    this.#isWelcomed = true;
    if (frame.degraded) {
      this.#isDegraded = true;
      this.#context.world.hit("sometimes.degraded");
      this.#context.ledger.degraded(this.#meta.idempotencyKey);
      const existing = this.#stream();
      if (existing !== undefined && !existing.isGone && !this.#isFresh)
        fail("D5", "an existing stream was run without its store");
      if (frame.durability !== "none" || frame.nextSeqno !== 0)
        fail("D5", "a degraded welcome promises something");
      return;
    }
    const stream = this.#stream();
    if (stream === undefined || (stream.isGone && this.#wasGone))
      fail("A7", "a stream that is not there was welcomed");
    if (frame.eventHead > stream.events.length) fail("B2", "a welcome names an event that is not durable");
    if (frame.writerEpoch > stream.state.writerEpoch) fail("D1", "a writer epoch is not durable");
    if (frame.aborted && !stream.state.aborted) fail("D3", "an abort was told before it was durable");
    this.#acked(frame.nextSeqno);
    if (this.#isWriter) this.#context.ledger.writers.add(this);
  }

  #acked(nextSeqno: number): void {
    const durable = this.#stream()?.chunks.length ?? 0;
    if (nextSeqno > durable) fail("A3", `${nextSeqno} chunks were acknowledged, ${durable} are durable`);
    if (nextSeqno < this.#nextSeqno) fail("A6", "an ack went back");
    this.#nextSeqno = nextSeqno;
  }

  #event(frame: Extract<ServerFrame, { kind: "event" }>): void {
    if (this.#isDegraded) {
      if (frame.eventId !== 0) fail("D5", "an event of a degraded stream has an id");
      return;
    }
    const stream = this.#stream();
    if (frame.eventId !== (this.#cursor ?? 0) + 1)
      fail("B1", `event ${frame.eventId} was sent after ${this.#cursor}`);
    this.#cursor = frame.eventId;
    if (stream === undefined || frame.eventId > stream.events.length) {
      fail("B2", `event ${frame.eventId} was sent before it was durable`);
    }
    checkSameAsLog(stream, frame.eventId, frame.body);
    const end = stream.events[frame.eventId - 1]?.mark;
    if ((frame.end ?? "plain") !== end) fail("B6", "the end is not where the log has it");
  }

  #error(code: string, message: string): void {
    const { world } = this.#context;
    if (code === "seqno_conflict" && this.#forgedSeqno !== undefined) {
      world.hit("sometimes.forgery_refused");
      return;
    }
    if (code === "seqno_conflict" && this.#isLongAcknowledged()) {
      world.hit("sometimes.ghost_refused");
      return;
    }
    if (
      code === "seqno_conflict" ||
      code === "invalid_frame" ||
      code === "stream_failed" ||
      code === "event_ahead"
    ) {
      fail(code === "seqno_conflict" ? "A2" : "B5", `an honest client was refused: ${code}, ${message}`);
    }
    if (code === "fenced") world.hit("sometimes.fenced");
    if (code === "stream_gone") world.hit("sometimes.tombstone_answered");
    if (code === "events_gone") world.hit("sometimes.events_gone");
    if (code === "overloaded") world.hit("sometimes.slow_reader_cut");
    if (code === "seqno_gap") world.hit("sometimes.seqno_gap");
  }

  /**
   * It brings a chunk to a stream that has more behind it than may be unacknowledged. Its client has the ack, so this is a ghost of an earlier
   * connection; what the server would compare with is forgotten by then, and nothing of it is accepted.
   */
  #isLongAcknowledged(): boolean {
    const { length } = this.#stream()?.chunks ?? [];
    return this.#seqno !== undefined && length - this.#seqno > LIMITS.unackedChunksMax;
  }

  #stream(): TrueStream | undefined {
    return this.#context.truth.of(this.#meta.principal, this.#meta.idempotencyKey);
  }
}

/** B4: an event is the log's bytes. */
export function checkSameAsLog(stream: TrueStream, eventId: number, body: Uint8Array): void {
  const logged = stream.events[eventId - 1];
  if (logged === undefined) fail("B2", `event ${eventId} is not in the log`);
  if (Buffer.compare(Buffer.from(logged.body), Buffer.from(body)) !== 0) {
    fail("B4", `event ${eventId} is not what the log has`);
  }
}
