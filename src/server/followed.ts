/**
 * The driver of one stream that another node runs: feeds the machine in `core/followed-stream.ts` and carries out what it orders. It decides nothing.
 *
 * It begins with a look at the stream, ends when the stream needs a host of its own, and writes letters only.
 */
import { assert } from "../protocol/assert.ts";
import * as followed from "../core/followed-stream.ts";
import type { DropReason } from "../core/host-state.ts";
import type { StreamName, StreamState } from "../core/stream-state.ts";
import { HoldfastError } from "../protocol/errors.ts";
import type { AttachFrame, ChunkFrame, ClientFrame, CloseFrame, ServerFrame } from "../protocol/frames.ts";
import type { Letters } from "../store/letters.ts";
import type { Absent, Gone, Seen } from "../store/stream-store.ts";
import type { AcceptedMeta, Wire } from "../transport/transport.ts";
import { countFrame } from "./counters.ts";
import { type Mac, spoken } from "./heard-letters.ts";
import type { Attaching, HostContext } from "./host-context.ts";
import { frameOf } from "./log-views.ts";
import { Outgoing } from "./outgoing.ts";
import { type FrameByLetter, readMacs, StreamLogs } from "./stream-logs.ts";

/** Two clients that ask for a writer epoch at the same time draw the same one so seldom; the content of chunks is compared all the same (A2). */
const DRAW_MAX = 2 ** 20;

type Spoken = ChunkFrame | CloseFrame;

interface FollowedParts {
  readonly context: HostContext;
  readonly letters: Letters;
  readonly hostId: string;
  readonly onDropped: (stream: FollowedStream) => void;
}

interface Item {
  readonly input: followed.Input;
  readonly chunk?: Spoken;
}

export class FollowedStream {
  readonly name: StreamName;
  readonly #parts: FollowedParts;
  readonly #context: HostContext;
  readonly #logs: StreamLogs;
  readonly #contentMac: Mac;
  readonly #outgoing = new Outgoing();
  readonly #items: Item[] = [];
  /** What clients said and the log does not have: at most as much as may be unacknowledged. */
  readonly #spoken = new Map<number, Spoken>();
  #state: followed.State;
  #isStepping = false;
  #isHeld: boolean;
  /** The node that runs the stream. */
  #runsAt: string | undefined;
  /** Letters keep their order. */
  #posting: Promise<void> = Promise.resolve();
  #seeing: Promise<void> = Promise.resolve();

  constructor(parts: FollowedParts, meta: AcceptedMeta, seen: Seen, macs: readonly Uint8Array[]) {
    const { context } = parts;
    const { principal, idempotencyKey, streamKey } = meta;
    this.name = { principal, idempotencyKey };
    this.#parts = parts;
    this.#context = context;
    this.#logs = new StreamLogs(context.store, this.name, context.sealing.sealer(streamKey));
    this.#contentMac = context.sealing.contentMac(streamKey);
    this.#runsAt = seen.hostId;
    this.#isHeld = seen.hostId !== undefined;
    const { options, store } = context;
    this.#state = followed.init(followed.DEFAULTS, options, store.durability, seen.state, macs);
  }

  /** As it was last seen. */
  get durable(): StreamState {
    return this.#state.host.durable;
  }

  get isDropped(): boolean {
    return this.#state.host.dropped;
  }

  /** Another node's lease was running when the stream was last seen. */
  get isHeld(): boolean {
    return this.#isHeld;
  }

  get isIdle(): boolean {
    return this.#state.host.attached.size === 0;
  }

  /** What the store says of the stream now. One after the other; rejects when the log cannot be read. */
  see(found: Seen | Gone | Absent): Promise<void> {
    const seeing = this.#seeing.then(() => this.#see(found));
    this.#seeing = seeing.catch(() => undefined);
    return seeing;
  }

  async #see(found: Seen | Gone | Absent): Promise<void> {
    if (found.kind !== "live") {
      this.drop("moved");
      return;
    }
    const { durable: known } = this.#state.host.inbox;
    const { hostId, state: stream } = found;
    const macs =
      stream.nextSeqno > known ? await readMacs(this.#context.store, this.name, known, stream.nextSeqno) : [];
    const isHeld = hostId !== undefined && hostId !== this.#parts.hostId;
    this.#isHeld = isHeld;
    if (isHeld && stream.hostEpoch >= this.durable.hostEpoch) this.#runsAt = hostId;
    this.#put({ input: { kind: "seen", stream, macs, isHeld, nowMs: this.#now() } });
    for (const seqno of this.#spoken.keys()) {
      const { durable, next } = this.#state.host.inbox;
      if (seqno < durable || seqno >= next) this.#spoken.delete(seqno);
    }
  }

  attach({ connection, conversation }: Attaching, wire: Wire<ServerFrame>, frame: AttachFrame): void {
    this.#outgoing.add(connection, wire);
    const body = frame.firstChunk;
    const firstMac = body === undefined ? undefined : this.#contentMac(0, "chunk", body);
    const canRun = canRunWith(this.durable, frame, conversation);
    const draw = Math.floor(this.#context.environment.random() * DRAW_MAX);
    const nowMs = this.#now();
    const chunk: Spoken | undefined = body && { kind: "chunk", seqno: 0, writerEpoch: 0, body };
    this.#put({
      input: { kind: "attach", connection, frame, firstMac, canRun, draw, nowMs },
      ...(chunk === undefined ? {} : { chunk }),
    });
  }

  received(connection: number, frame: ClientFrame): void {
    const nowMs = this.#now();
    switch (frame.kind) {
      case "chunk":
      case "close": {
        const { said } = spoken(frame, this.#contentMac);
        this.#put({ input: { kind: "chunk", connection, ...said, nowMs }, chunk: frame });
        return;
      }
      case "abort":
      case "heartbeat":
        this.#put({ input: { kind: frame.kind, connection, nowMs } });
        return;
      case "attach":
        return;
    }
  }

  drained(connection: number): void {
    this.#put({ input: { kind: "sender", connection, input: { kind: "drained" } } });
  }

  closed(connection: number): void {
    this.#outgoing.remove(connection);
    this.#put({ input: { kind: "closed", connection } });
  }

  tick(): void {
    this.#put({ input: { kind: "tick", nowMs: this.#now() } });
  }

  drop(reason: DropReason): void {
    this.#put({ input: { kind: "drop", reason } });
  }

  #now(): number {
    return this.#context.clock.now();
  }

  #put(item: Item): void {
    this.#items.push(item);
    if (this.#isStepping) return;
    this.#isStepping = true;
    for (let next = this.#items.shift(); next !== undefined; next = this.#items.shift()) this.#step(next);
    this.#isStepping = false;
    this.#outgoing.flush();
  }

  #step(item: Item): void {
    try {
      const [next, effects] = followed.step(this.#state, item.input);
      this.#state = next;
      for (const effect of effects) this.#carryOut(effect, item);
    } catch (bug) {
      this.#context.onBug(bug);
      if (item.input.kind !== "drop") this.drop("bug");
    }
  }

  #carryOut(effect: followed.Effect, item: Item): void {
    switch (effect.kind) {
      case "send":
        countFrame(this.#context.counters, effect.frame);
        this.#outgoing.queue(effect.connection, effect.frame);
        return;
      case "read":
        void this.#read(effect.connection, effect.from);
        return;
      case "disconnect":
        this.#outgoing.end(effect.connection);
        return;
      case "post_attach":
        this.#post(effect);
        return;
      case "keep_chunk": {
        assert(item.chunk !== undefined, "a chunk is kept with its body");
        const { input } = item;
        const { writerEpoch = 0 } =
          "connection" in input ? (this.#state.host.attached.get(input.connection) ?? {}) : {};
        this.#spoken.set(effect.seqno, { ...item.chunk, writerEpoch });
        return;
      }
      case "post_chunk": {
        const frame = this.#spoken.get(effect.seqno);
        assert(frame !== undefined, "what is not durable is kept");
        this.#post({ frame, writerEpoch: frame.writerEpoch, canRun: false });
        return;
      }
      case "post_abort":
        this.#post({ frame: { kind: "abort" }, writerEpoch: 0, canRun: false });
        return;
      case "dropped":
        this.#parts.onDropped(this);
        return;
    }
  }

  #post({ frame, writerEpoch, canRun }: FrameByLetter): void {
    const to = this.#runsAt;
    if (to === undefined) return;
    const { hostEpoch } = this.durable;
    const sealed = this.#logs.sealLetter({ frame, writerEpoch, canRun });
    const post = (): Promise<void> => this.#parts.letters.post({ to, name: this.name, hostEpoch, sealed });
    // A letter that is lost is posted again.
    this.#posting = this.#posting.then(post).catch(() => {
      this.#context.counters.storeFailures++;
    });
  }

  async #read(connection: number, from: number): Promise<void> {
    try {
      const events = await this.#logs.readEvents(from);
      const { eventHead } = this.durable;
      const frames = events.filter(({ eventId }) => eventId <= eventHead).map(frameOf);
      const last = frames.at(-1);
      if (!this.#outgoing.has(connection) || this.isDropped) return;
      assert(last !== undefined, "what is durable can be read");
      const waitingBytes = this.#outgoing.write(connection, frames);
      const written = { kind: "written", through: last.eventId, waitingBytes, nowMs: this.#now() } as const;
      this.#put({ input: { kind: "sender", connection, input: written } });
    } catch (cause) {
      const { code, message } = new HoldfastError("unavailable", "the log cannot be read", { cause });
      this.#put({ input: { kind: "refuse", connection, code, message } });
    }
  }
}

/** Whether a host could run the turn with what this client has brought. */
export function canRunWith(
  { conversationCheck }: StreamState,
  frame: AttachFrame,
  conversation: AcceptedMeta["conversation"],
): boolean {
  return frame.peek !== true && (conversationCheck === undefined || conversation !== undefined);
}
