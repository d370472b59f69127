/**
 * The turn's two logs as its runner uses them: reads them back, says events, waits for answers.
 *
 * An event is taken into the facts when the host has accepted it, by the same function that reads it back after a
 * restart. Its place in the log is fixed then: what follows from it stands behind it, so it can never be durable without
 * it, and no client hears of either before it is. So the turn waits for the disk only for what is no event: see `untilDurable`.
 * What waits here waits for a fact in the log, never for a callback that a crash would lose.
 *
 * Invariant: once the host has refused an event the turn emits no more, so the log never holds what follows from a missing event.
 */
import { create, type MessageInitShape } from "../protocol/message.ts";
import {
  type AgentServerMessage,
  type BlobKind,
  type Content,
  ContentSchema,
  type KvServerMessageSchema,
} from "../protocol/messages.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { CANCELLED } from "../protocol/let-go.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { ApplicationStream, ClientInput, KeptBlob } from "../server/application.ts";
import { blobIdBytes } from "../protocol/blob-id.ts";
import { type BlobCache, blobIdOf, contentOf, largeBlobs } from "./blobs.ts";
import { heard, logged, newFacts } from "../turn/facts.ts";
import {
  decodeServer,
  encodePiece,
  encodeServer,
  pieceMessage,
  serverMessage,
  type ServerMessage,
  type Update,
} from "../turn/messages.ts";
import { fitsInline, inBlob } from "../turn/content.ts";
import { isAsked, serverKeeps } from "../turn/reader.ts";

type KvMessage = NonNullable<MessageInitShape<typeof KvServerMessageSchema>["message"]>;

/** Events that may wait for the disk together; then a caller that says more waits with them (F2). */
const WAITING_MAX = 256;

/** The same in bytes: with the largest event on top far below what the host lets wait. */
const WAITING_BYTES_MAX = LIMITS.sendQueueBytesMax / 4;

/** A larger blob is durable before the event that names it. */
const KEPT_WITH_EVENT_BYTES_MAX = 256 * 1024;

const ROOM = Promise.resolve();

/** Records that are folded before others get their turn: a few milliseconds of work. */
export const FOLDED_AT_ONCE = 500;

/** The turn is over for this run: aborted, or another host has it. */
export class Stopped extends Error {}

export class TurnIo {
  readonly facts = newFacts(blobIdOf);
  readonly stream: ApplicationStream;
  readonly #cache: BlobCache;
  #changed = Promise.withResolvers<void>();
  readonly #stop = new AbortController();
  #changes = 0;
  #isOver = false;
  #head = 0;
  /** Events that are not durable yet. */
  readonly #waiting = new Map<number, Promise<void>>();
  #waitingBytes = 0;
  /** Blobs that are stored together with the next event. */
  #unkept: KeptBlob[] = [];
  /** Why an event did not get into the log: nothing that follows from it will ever be heard. */
  #refused: Error | undefined;

  readonly #yieldTurn: () => Promise<void>;

  constructor(stream: ApplicationStream, cache: BlobCache, yieldTurn: () => Promise<void>) {
    this.stream = stream;
    this.#cache = cache;
    this.#yieldTurn = yieldTurn;
    if (stream.signal.aborted) this.#lost();
    else stream.signal.addEventListener("abort", this.#lost, { once: true });
  }

  readonly #lost = (): void => {
    this.#stop.abort(this.stream.signal.reason);
    this.#change();
  };

  /** The turn is over, and its stream is kept for a while: nothing of the turn is kept with it. */
  leave(): void {
    this.stream.signal.removeEventListener("abort", this.#lost);
  }

  /** Reads both logs to their end, and lets others have their turn meanwhile; then listens. */
  async recover(): Promise<void> {
    const inputs = this.stream.inputs[Symbol.asyncIterator]();
    const { pastInputs } = this.stream;
    for (let taken = 0; taken < pastInputs; taken++) {
      const next = await inputs.next();
      if (next.done === true) break;
      heard(this.facts, next.value);
      if (taken % FOLDED_AT_ONCE === FOLDED_AT_ONCE - 1) await this.#yieldTurn();
    }
    for await (const { eventId, body } of this.stream.past()) {
      this.#head = eventId;
      if (body.length > 0) logged(this.facts, eventId, decodeServer(body));
      if (eventId % FOLDED_AT_ONCE === 0) await this.#yieldTurn();
    }
    if (pastInputs > 0) this.facts.found.pastHead = this.#head;
    this.#noticeCancel();
    void this.#listen(inputs);
  }

  #noticeCancel(): void {
    if (this.facts.cancelled !== undefined) this.#stop.abort(CANCELLED);
  }

  /** Fires when the user cancels, and the turn then comes to an orderly end; or when the host lets the stream go. */
  get stopSignal(): AbortSignal {
    return this.#stop.signal;
  }

  async #listen(inputs: AsyncIterator<ClientInput>): Promise<void> {
    try {
      for (let next = await inputs.next(); next.done !== true; next = await inputs.next()) {
        heard(this.facts, next.value);
        this.#noticeCancel();
        this.#change();
      }
    } catch {
      // The host has lost the stream, and says so by the signal.
    }
    this.#isOver = true;
    this.#change();
  }

  #change(): void {
    this.#changes++;
    const { resolve } = this.#changed;
    this.#changed = Promise.withResolvers<void>();
    resolve();
  }

  get isStopped(): boolean {
    return this.stream.signal.aborted;
  }

  /** How often something was heard. */
  get changes(): number {
    return this.#changes;
  }

  /** Until more is heard than when the count was `seen`. Throws `Stopped` when nothing will be. */
  async changeSince(seen: number): Promise<void> {
    if (this.isStopped) throw new Stopped();
    if (this.#refused !== undefined) throw this.#refused;
    if (this.#changes !== seen) return;
    if (this.#isOver) throw new Stopped();
    this.stream.waits(true);
    await this.#changed.promise;
    this.stream.waits(false);
    if (this.isStopped) throw new Stopped();
  }

  /**
   * Says an event, in order; it counts from now on. Resolves when there is room for another one, which is at once
   * unless much waits for the disk: not when it is durable.
   */
  emit(message: ServerMessage): Promise<void> {
    const whole = serverMessage(message);
    return this.#say(whole, encodeServer(whole));
  }

  #say(whole: AgentServerMessage, body: Uint8Array): Promise<void> {
    if (body.length > LIMITS.eventBytesMax) this.#refuse(tooLarge(body.length));
    const silence = this.#silence ?? this.#take(whole);
    if (silence !== undefined) return quiet(Promise.reject(silence));
    const eventId = ++this.#head;
    const kept = this.#unkept.splice(0);
    const durable = quiet(this.#follow(this.stream.emit(body, kept), eventId, body.length));
    this.#waiting.set(eventId, durable);
    const isFull = this.#waiting.size >= WAITING_MAX || this.#waitingBytes >= WAITING_BYTES_MAX;
    return isFull ? durable : ROOM;
  }

  /** The last event that was accepted. */
  get head(): number {
    return this.#head;
  }

  /** Why nothing more may be said. */
  get #silence(): Error | undefined {
    return this.isStopped ? new Stopped() : this.#refused;
  }

  /** Into the book, which says when something is not as it must be: then it is not said either. */
  #take(whole: AgentServerMessage): Error | undefined {
    try {
      logged(this.facts, this.#head + 1, whole);
      return undefined;
    } catch (bug) {
      return this.#refuse(bug);
    }
  }

  #refuse(cause: unknown): Error {
    this.#refused ??= cause instanceof Error ? cause : new Error(String(cause));
    this.#change();
    return this.#refused;
  }

  async #follow(durable: Promise<number>, eventId: number, bytes: number): Promise<void> {
    this.#waitingBytes += bytes;
    try {
      const given = await durable;
      if (given !== eventId) throw new Error(`event ${eventId} of a turn was logged as ${given}`);
    } catch (cause) {
      const refused = this.#refuse(cause);
      throw this.#silence ?? refused;
    } finally {
      this.#waiting.delete(eventId);
      this.#waitingBytes -= bytes;
    }
  }

  update(update: Update): Promise<void> {
    const isPiece = update.case === "textDelta" || update.case === "thinkingDelta";
    const text = isPiece ? (update.value.text ?? "") : "";
    // Nearly all events are these.
    if (isPiece && text !== "")
      return this.#say(pieceMessage(update.case, text), encodePiece(update.case, text));
    return this.emit({ case: "interactionUpdate", value: { message: update } });
  }

  /**
   * Until this event is on disk, and so all before it: for what is done outside of the log and costs something. Throws when
   * nothing more may be said: what is done then reaches no client.
   */
  async untilDurable(eventId: number): Promise<void> {
    await this.#waiting.get(eventId);
    if (this.#silence !== undefined) throw this.#silence;
  }

  /**
   * Has a blob kept, once. The client is asked to, and its answer is in the log some time later; or the server stores it together with the next
   * event, a large one before.
   */
  async setBlob(bytes: Uint8Array, kind: BlobKind, id = blobIdOf(bytes)): Promise<Content> {
    this.#cache.put(this.stream.principal, id, bytes);
    if (!isAsked(this.facts, id)) {
      if (serverKeeps(this.facts)) await this.#store(bytes, id);
      else await this.#askToKeep(bytes, kind, id);
    }
    return create(ContentSchema, inBlob(id, bytes.length));
  }

  async #store(bytes: Uint8Array, id: string): Promise<void> {
    if (bytes.length <= KEPT_WITH_EVENT_BYTES_MAX && this.#unkeptBytes + bytes.length <= WAITING_BYTES_MAX)
      this.#unkept.push({ id, bytes });
    else await largeBlobs(this.stream.conversation).put(bytes);
    this.facts.found.stored.add(id);
  }

  get #unkeptBytes(): number {
    return this.#unkept.reduce((sum, { bytes }) => sum + bytes.length, 0);
  }

  async #askToKeep(bytes: Uint8Array, kind: BlobKind, id: string): Promise<void> {
    const isInline = fitsInline(bytes);
    if (!isInline) await largeBlobs(this.stream.blobs).put(bytes);
    const value = { blobId: blobIdBytes(id), kind, ...(isInline ? { blobData: bytes } : {}) };
    await this.kv({ case: "setBlobArgs", value });
  }

  /** Says a request to the client's blobs. */
  kv(message: KvMessage): Promise<void> {
    return this.emit({ case: "kvServerMessage", value: { id: this.facts.kvIdMax + 1, message } });
  }

  /** Looks for bytes that are not in hand. What is found is in the facts, and what is not as well. */
  async fetch(blobIds: readonly string[]): Promise<void> {
    const { principal, blobs, conversation } = this.stream;
    for (const id of blobIds) {
      const cached = this.#cache.get(principal, id);
      const bytes = cached ?? (await conversation?.get(id)) ?? (await blobs?.get(id));
      this.facts.found.fetched.set(id, bytes);
      if (cached === undefined && bytes !== undefined) this.#cache.put(principal, id, bytes);
    }
  }

  /** Into the cache, for the next turns of the conversation. */
  cacheLearned(): void {
    const { learned } = this.facts.found;
    // To empty a map is to make a table for it.
    if (learned.size === 0) return;
    for (const [id, bytes] of learned) this.#cache.put(this.stream.principal, id, bytes);
    learned.clear();
  }

  /** Bytes as they can stand in an event. */
  content(bytes: Uint8Array): Promise<Content> {
    return contentOf(bytes, this.stream.blobs);
  }
}

/** A caller that does not wait for it hears of it by the next thing that it says or waits for. */
function quiet<Value>(promise: Promise<Value>): Promise<Value> {
  promise.catch(ignored);
  return promise;
}

function ignored(): void {}

function tooLarge(bytes: number): HoldfastError {
  const message = `an event of a turn has ${bytes} bytes, and at most ${LIMITS.eventBytesMax}: put it in a blob`;
  return new HoldfastError("too_large", message);
}
