/**
 * The turn's two logs as its runner uses them: reads them back, says events, waits for answers.
 *
 * An event is taken into the `TurnLog` when the host has accepted it, by the same function that reads it back after a
 * restart. Its place in the log is fixed then: what follows from it stands behind it, so it can never be durable without
 * it, and nobody hears of either before it is. So nobody waits for the disk, but for what is no event: see `untilDurable`.
 * What waits here waits for a fact in the log, never for a callback that a crash would lose.
 *
 * Invariant: once an event was refused nothing more is said, so the log never holds what follows from a missing event.
 */
import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import {
  type AgentServerMessage,
  AgentServerMessageSchema,
  type BlobKind,
  type Content,
  ContentSchema,
  type KvServerMessageSchema,
} from "../protocol/messages.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { ApplicationStream, ClientInput } from "../server/application.ts";
import { type BlobCache, blobIdOf, bytesOf, contentOf, hexOf, largeBlobs } from "./blobs.ts";
import type { Update } from "./step-output.ts";
import { TurnFailure } from "./turn-failure.ts";
import { TurnLog } from "./turn-log.ts";

export type ServerMessage = NonNullable<MessageInitShape<typeof AgentServerMessageSchema>["message"]>;

type KvMessage = NonNullable<MessageInitShape<typeof KvServerMessageSchema>["message"]>;

/** Events that may wait for the disk together; then whoever says more waits with them (F2). */
const WAITING_MAX = 256;

/** The same in bytes: with the largest event on top far below what the host lets wait. */
const WAITING_BYTES_MAX = LIMITS.sendQueueBytesMax / 4;

const ROOM = Promise.resolve();

/** The turn is over for this run: aborted, or another host has it. */
export class Stopped extends Error {}

export class TurnIo {
  readonly log = new TurnLog();
  readonly stream: ApplicationStream;
  readonly #cache: BlobCache;
  /** Blobs that this turn has in hand, by id. Small ones: what is larger lies beside the stream and can be read again. */
  readonly #known = new Map<string, Uint8Array>();
  #changed = Promise.withResolvers<void>();
  readonly #cancel = new AbortController();
  #changes = 0;
  #isOver = false;
  #head = 0;
  /** The last event of the runs before this one. */
  #pastHead = 0;
  /** Events that are not durable yet. */
  readonly #waiting = new Map<number, Promise<void>>();
  #waitingBytes = 0;
  /** Those that speak side by side, one behind the other. */
  #speaking: Promise<unknown> = ROOM;
  /** Why an event did not get into the log: nothing that follows from it will ever be heard. */
  #refused: Error | undefined;

  constructor(stream: ApplicationStream, cache: BlobCache) {
    this.stream = stream;
    this.#cache = cache;
    stream.signal.addEventListener("abort", () => this.#change(), { once: true });
  }

  /** Reads both logs to their end; then listens. */
  async recover(): Promise<void> {
    const inputs = this.stream.inputs[Symbol.asyncIterator]();
    for (let taken = 0; taken < this.stream.pastInputs; taken++) {
      const next = await inputs.next();
      if (next.done === true) break;
      this.log.heard(next.value);
    }
    for await (const { eventId, body } of this.stream.past()) {
      this.#head = eventId;
      if (body.length === 0) continue;
      const message = fromBinary(AgentServerMessageSchema, body);
      this.#keepSet(message);
      this.log.logged(eventId, message);
    }
    this.#pastHead = this.#head;
    this.#noticeCancel();
    void this.#listen(inputs);
  }

  #noticeCancel(): void {
    if (this.log.cancelled !== undefined) this.#cancel.abort();
  }

  /** Fires when the user cancels; the turn then comes to an orderly end. */
  get cancelSignal(): AbortSignal {
    return this.#cancel.signal;
  }

  async #listen(inputs: AsyncIterator<ClientInput>): Promise<void> {
    try {
      for (let next = await inputs.next(); next.done !== true; next = await inputs.next()) {
        this.log.heard(next.value);
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
    await this.#changed.promise;
    if (this.isStopped) throw new Stopped();
  }

  async until(isSo: () => boolean): Promise<void> {
    while (!isSo()) await this.changeSince(this.#changes);
  }

  /**
   * Says an event, in order; it counts from now on. Resolves when there is room for another one, which is at once
   * unless much waits for the disk: not when it is durable.
   */
  emit(message: ServerMessage): Promise<void> {
    const whole = messageOf(message);
    const body = toBinary(AgentServerMessageSchema, whole);
    if (body.length > LIMITS.eventBytesMax) this.#refuse(tooLarge(body.length));
    const silence = this.#silence ?? this.#take(whole);
    if (silence !== undefined) return quiet(Promise.reject(silence));
    const eventId = ++this.#head;
    const durable = quiet(this.#follow(this.stream.emit(body), eventId, body.length));
    this.#waiting.set(eventId, durable);
    const isFull = this.#waiting.size >= WAITING_MAX || this.#waitingBytes >= WAITING_BYTES_MAX;
    return isFull ? durable : ROOM;
  }

  /**
   * Says it when those before have room: for many that speak side by side, who together would be more than the host
   * lets wait (F2). What is said is made then, from the log as it is then.
   */
  inTurn(say: () => Promise<void>): Promise<void> {
    const said = this.#speaking.then(say);
    this.#speaking = said.catch(() => undefined);
    return said;
  }

  /** The last event that was accepted. */
  get head(): number {
    return this.#head;
  }

  /** This run follows a restart, and has not come further than this event, which an earlier one said. */
  isRestartedBehind(eventId: number): boolean {
    return this.stream.pastInputs > 0 && eventId <= this.#pastHead;
  }

  /** Why nothing more may be said. */
  get #silence(): Error | undefined {
    return this.isStopped ? new Stopped() : this.#refused;
  }

  /** Into the book, which says when something is not as it must be: then it is not said either. */
  #take(whole: AgentServerMessage): Error | undefined {
    try {
      this.log.logged(this.#head + 1, whole);
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
    return this.emit({ case: "interactionUpdate", value: { message: update } });
  }

  /**
   * Until this event is on disk, and so all before it: for what is done outside of the log and costs something. Throws when
   * nothing more may be said: what is done then is for nobody.
   */
  async untilDurable(eventId: number): Promise<void> {
    await this.#waiting.get(eventId);
    if (this.#silence !== undefined) throw this.#silence;
  }

  /** Asks the client to keep a blob, once; the answer is in the log some time later. */
  async setBlob(bytes: Uint8Array, kind: BlobKind, id = blobIdOf(bytes)): Promise<Content> {
    this.learn(id, bytes);
    const isInline = bytes.length <= LIMITS.inlineBytesMax;
    if (!isInline && !this.log.isSetAsked(id)) await largeBlobs(this.stream.blobs).put(bytes);
    const value = { blobId: bytesOf(id), kind, ...(isInline ? { blobData: bytes } : {}) };
    await this.inTurn(() => (this.log.isSetAsked(id) ? ROOM : this.#ask({ case: "setBlobArgs", value })));
    return create(ContentSchema, {
      content: { case: "blobId", value: bytesOf(id) },
      sizeBytes: bytes.length,
    });
  }

  #ask(message: KvMessage): Promise<void> {
    return this.emit({ case: "kvServerMessage", value: { id: this.log.kvIdMax + 1, message } });
  }

  /** A blob that the conversation names: known, cached, uploaded, or asked of the client. */
  async blob(id: string): Promise<Uint8Array> {
    const known = this.#known.get(id) ?? this.#cache.get(this.stream.principal, id);
    if (known !== undefined) return known;
    const bytes = (await this.#uploaded(id)) ?? (await this.#asked(id));
    this.learn(id, bytes);
    return bytes;
  }

  async #uploaded(id: string): Promise<Uint8Array | undefined> {
    return this.log.isGetAsked(id) ? undefined : this.stream.blobs?.get(id);
  }

  async #asked(id: string): Promise<Uint8Array> {
    if (this.log.request?.keepsBlobs !== true) throw missing(id, "it was not uploaded");
    this.askFor([id]);
    await this.until(() => this.log.getAnswer(id) !== undefined || this.log.isClosed);
    return this.#answered(id);
  }

  /** Asks for all at once what is not in hand; `blob` then waits for each. */
  askFor(ids: readonly string[]): void {
    for (const id of ids) {
      const isInHand = this.#known.has(id) || this.#cache.get(this.stream.principal, id) !== undefined;
      if (isInHand || this.log.isGetAsked(id)) continue;
      void this.#ask({ case: "getBlobArgs", value: { blobId: bytesOf(id) } });
    }
  }

  async #answered(id: string): Promise<Uint8Array> {
    const answer = this.log.getAnswer(id)?.message;
    if (answer?.case !== "getBlobResult") throw missing(id, "the client does not answer for it");
    const { blobData, error, notFound, uploaded } = answer.value;
    if (notFound) throw missing(id, "the client does not have it");
    if (error !== undefined) throw missing(id, error);
    const bytes = uploaded ? await largeBlobs(this.stream.blobs).get(id) : blobData;
    if (bytes === undefined) throw missing(id, "the client sent nothing");
    if (blobIdOf(bytes) !== id) throw missing(id, "the client sent other bytes");
    return bytes;
  }

  /** From now on it need not be asked for. The bytes are checked by whoever has them from elsewhere. */
  learn(id: string, bytes: Uint8Array): void {
    if (bytes.length <= LIMITS.inlineBytesMax) this.#known.set(id, bytes);
    this.#cache.put(this.stream.principal, id, bytes);
  }

  /** Bytes as they can stand in an event. */
  content(bytes: Uint8Array): Promise<Content> {
    return contentOf(bytes, this.stream.blobs);
  }

  /** What a content of the client's, or of our own, stands for; empty when there is none. */
  async read(content: Content | undefined): Promise<Uint8Array> {
    switch (content?.content.case) {
      case undefined:
        return new Uint8Array();
      case "inline":
        return content.content.value;
      case "blobId":
        return this.blob(hexOf(content.content.value));
    }
  }

  /** What we had the client keep is in our own log. */
  #keepSet({ message }: AgentServerMessage): void {
    if (message.case !== "kvServerMessage" || message.value.message.case !== "setBlobArgs") return;
    const { blobId, blobData } = message.value.message.value;
    if (blobData !== undefined) this.#known.set(hexOf(blobId), blobData);
  }
}

/** Whoever does not wait for it hears of it by the next thing that he says or waits for. */
function quiet<Value>(promise: Promise<Value>): Promise<Value> {
  promise.catch(() => undefined);
  return promise;
}

function tooLarge(bytes: number): HoldfastError {
  const message = `an event of a turn has ${bytes} bytes, and at most ${LIMITS.eventBytesMax}: put it in a blob`;
  return new HoldfastError("too_large", message);
}

function missing(id: string, why: string): TurnFailure {
  return new TurnFailure("blob_missing", `a part of the conversation is missing (blob ${id}): ${why}`);
}

function messageOf(message: ServerMessage): AgentServerMessage {
  return create(AgentServerMessageSchema, { message });
}
