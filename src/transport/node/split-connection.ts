/**
 * A connection whose two directions are different HTTP requests, put together again.
 *
 * Appends may overtake each other, and the server takes chunks in order only. So a chunk that came early is
 * held until the ones before it are there; the welcome on its way out says which one is next. An append is
 * answered when the acks that pass here cover its chunks: the promise of the ack is the promise of the
 * answer (A3).
 *
 * Invariant: what the handler receives is in order of seqno, apart from repeats; at most `unackedChunksMax` chunks or
 * `unackedBytesMax` bytes are held (F2).
 */
import type { AppendOutcome } from "../../protocol/append-codec.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import type { ChunkFrame, ClientFrame, CloseFrame, ServerFrame } from "../../protocol/frames.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Accept, AcceptedMeta, Handler } from "../transport.ts";
import { errorOf, type Outlet, ServerWire } from "./server-wire.ts";

/** More appends than this do not wait at the same time: an honest client has two. */
const WAITING_APPENDS_MAX = 64;

type Numbered = ChunkFrame | CloseFrame;

interface WaitingAppend {
  /** Answered when every seqno below is durable. */
  readonly nextSeqno: number;
  readonly answer: (outcome: AppendOutcome) => void;
}

export class SplitConnection {
  readonly meta: AcceptedMeta;
  readonly tag: string;
  readonly #wire: ServerWire;
  readonly #handler: Handler<ClientFrame>;
  readonly #onClosed: () => void;
  readonly #held = new Map<number, Numbered>();
  #heldBytes = 0;
  #waiting: WaitingAppend[] = [];
  /** The seqno to hand over next; undefined before the welcome. */
  #next: number | undefined;
  /** Everything below is durable. */
  #durable: number | undefined;
  #isFirstChunkSaid = false;
  /** Only a writer's chunks are waited with: those of a reader are refused, and sixteen readers would hold much. */
  #isWriter = false;
  #isDegraded = false;
  #error: HoldfastError | undefined;
  #isClosed = false;

  constructor(meta: AcceptedMeta, tag: string, outlet: Outlet, accept: Accept, onClosed: () => void) {
    this.meta = meta;
    this.tag = tag;
    this.#onClosed = onClosed;
    this.#wire = new ServerWire(outlet, (frame) => this.#seen(frame));
    this.#handler = accept(meta, this.#wire);
  }

  get isEnded(): boolean {
    return this.#wire.isEnded;
  }

  /** Hands the frames over, and answers when what they carry is durable. */
  append(frames: readonly ClientFrame[], answer: (outcome: AppendOutcome) => void): void {
    const errorBefore = this.#error;
    let through = 0;
    for (const frame of frames) {
      if (this.#isClosed || this.#wire.isEnded) break;
      through = Math.max(through, this.#take(frame));
    }
    // A seqno may be durable with other content: then these very frames were refused, and nothing of them is (A2).
    if (this.#error !== errorBefore && this.#error !== undefined) answer({ error: this.#error });
    else this.#waiting.push({ nextSeqno: through, answer });
    if (this.#waiting.length > WAITING_APPENDS_MAX) {
      this.refuse(new HoldfastError("overloaded", "too many appends wait at the same time; retry"));
    }
    this.#settle();
  }

  /** Returns the seqno that is next when this one is durable; 0 when nothing has to be. */
  #take(frame: ClientFrame): number {
    switch (frame.kind) {
      case "chunk":
      case "close":
        this.#order(frame);
        return frame.seqno + 1;
      case "attach":
        this.#isFirstChunkSaid = frame.firstChunk !== undefined;
        this.#isWriter = frame.role === "writer";
        this.#handler.received(frame);
        return this.#isFirstChunkSaid ? 1 : 0;
      case "abort":
      case "heartbeat":
        this.#handler.received(frame);
        return 0;
    }
  }

  /** The client leaves. */
  detach(): void {
    this.#wire.end();
    this.close(undefined);
  }

  refuse(error: HoldfastError): void {
    this.#error ??= error;
    this.#wire.refuse(error);
  }

  drained(): void {
    if (!this.#wire.isWaiting || this.#isClosed) return;
    this.#wire.isWaiting = false;
    this.#handler.drained();
  }

  /** The way out is closed: by us in order, or it broke. */
  close(reason: HoldfastError | undefined): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#wire.lose();
    this.#held.clear();
    this.#heldBytes = 0;
    this.#onClosed();
    this.#handler.closed(reason);
    this.#settle();
  }

  #order(frame: Numbered): void {
    if (this.#next === undefined || frame.seqno < this.#next) return this.#handler.received(frame);
    if (frame.seqno > this.#next && this.#isWriter && this.#hold(frame)) return;
    this.#handOver(frame);
  }

  #handOver(frame: Numbered): void {
    this.#next = Math.max(this.#next ?? 0, frame.seqno + 1);
    this.#handler.received(frame);
    this.#release();
  }

  /** False when there is no more room: it is handed over all the same, and refused as a gap. */
  #hold(frame: Numbered): boolean {
    if (this.#held.has(frame.seqno)) return true;
    const bytes = bytesOf(frame);
    const isFull =
      this.#held.size >= LIMITS.unackedChunksMax || this.#heldBytes + bytes > LIMITS.unackedBytesMax;
    if (isFull) return false;
    this.#held.set(frame.seqno, frame);
    this.#heldBytes += bytes;
    return true;
  }

  #release(): void {
    const frame = this.#next === undefined ? undefined : this.#held.get(this.#next);
    if (frame === undefined || this.#isClosed) return;
    this.#held.delete(frame.seqno);
    this.#heldBytes -= bytesOf(frame);
    this.#handOver(frame);
  }

  #seen(frame: ServerFrame): void {
    switch (frame.kind) {
      case "welcome":
        this.#isDegraded = frame.degraded;
        this.#next = Math.max(frame.nextSeqno, this.#isFirstChunkSaid ? 1 : 0);
        this.#durableBelow(frame.nextSeqno);
        return;
      case "ack":
        this.#durableBelow(frame.seqno + 1);
        return;
      case "heartbeat":
        this.#durableBelow(frame.nextSeqno);
        return;
      case "error":
        this.#error ??= errorOf(frame);
        queueMicrotask(() => this.#settle());
        return;
      case "event":
        if (frame.end !== undefined) this.#streamEnded();
        return;
      case "durability_lost":
        return;
    }
  }

  #durableBelow(nextSeqno: number): void {
    this.#durable = Math.max(this.#durable ?? 0, nextSeqno);
    if (this.#waiting.length > 0) this.#settle();
  }

  /** What is not acknowledged together with the end never will be; and a response whose last word was said is over. */
  #streamEnded(): void {
    queueMicrotask(() => {
      this.#error ??= new HoldfastError("stream_ended", "the stream has ended; the last event says how");
      this.#settle();
      this.#wire.end();
    });
  }

  #settle(): void {
    const left: WaitingAppend[] = [];
    for (const each of this.#waiting.splice(0)) {
      const outcome = this.#outcomeOf(each.nextSeqno);
      if (outcome === undefined) left.push(each);
      else each.answer(outcome);
    }
    this.#waiting.push(...left);
  }

  #outcomeOf(nextSeqno: number): AppendOutcome | undefined {
    const durable = this.#durable;
    if (nextSeqno > 0 && durable !== undefined && durable >= nextSeqno) return { nextSeqno: durable };
    if (this.#error !== undefined) return { error: this.#error };
    // A degraded stream acknowledges nothing.
    if (nextSeqno === 0 || this.#isDegraded) return { nextSeqno: durable };
    if (!this.#isClosed) return undefined;
    return {
      error: new HoldfastError("connection_lost", "the connection ended before the chunks were durable"),
    };
  }
}

function bytesOf(frame: Numbered): number {
  return frame.kind === "chunk" ? frame.body.length : 0;
}
