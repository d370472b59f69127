/**
 * One run of the application on one stream: from the start, or from a restart, until the end.
 *
 * Stands between the application's promises and the host's steps: events go down as they are
 * emitted, and their promises resolve when they are durable. When this host loses the stream,
 * everything the application waits for fails, and nothing it says is heard.
 */
import type { StreamName, StreamState } from "../core/stream-state.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { LetGo } from "../protocol/let-go.ts";
import { LIMITS } from "../protocol/limits.ts";
import type {
  Application,
  ApplicationBlobs,
  ApplicationStream,
  ClientInput,
  KeptBlob,
  PastEvent,
} from "./application.ts";
import { InputFeed } from "./input-feed.ts";
import type { LogReader } from "./stream-logs.ts";

/** An event on its way into the log, and how its caller learns what became of it. */
export interface PendingEvent {
  /** Lent for the call only: the application may use its buffer again, and readers get what was logged (B4). */
  readonly body: Uint8Array;
  readonly kept: readonly KeptBlob[];
  readonly durable: (eventId: number) => void;
  readonly refused: (code: "stream_ended" | "unavailable") => void;
}

interface RunHost {
  emit(event: PendingEvent): void;
  end(event: PendingEvent, reason: "completed" | "failed"): void;
  /** The application begins to read its events back, or has done so. */
  readingBack(isSo: boolean): void;
  /** Resolves when the connected clients have been given the log, or after a while. */
  readersServed(): Promise<void>;
  /** The logs cannot be read: this host cannot continue, which is no fault of the application. */
  unreadable(): void;
  onBug(bug: unknown): void;
  readonly blobs: ApplicationBlobs | undefined;
  /** Asked when the run begins. */
  readonly conversation: () => ApplicationBlobs | undefined;
  /** Of what this text means, under the stream key; undefined where the stream has no host epoch. */
  readonly secretName: ((text: string) => string) | undefined;
  /** The stream's name was drawn for this run. */
  readonly isNew: boolean;
}

/** So many events are read and folded in a few milliseconds. */
const SHORT_LOG = 500;

const MESSAGES = {
  stream_ended: "the stream is aborted or has ended",
  unavailable: "this host no longer runs the stream",
};

export class ApplicationRun {
  readonly #name: StreamName;
  readonly #logs: LogReader;
  readonly #host: RunHost;
  readonly #feed: InputFeed;
  readonly #stored: StreamState;
  readonly #abort = new AbortController();
  #waiting: { readonly event: PendingEvent; readonly eventId: number }[] = [];
  #waitingBytes = 0;
  #hasStarted = false;
  #hasEnded = false;
  #overflow: HoldfastError | undefined;
  #isLost = false;
  #isRunning = false;
  #isWaiting = false;

  constructor(name: StreamName, logs: LogReader, stored: StreamState, host: RunHost) {
    this.#name = name;
    this.#logs = guarded(logs, () => host.unreadable());
    this.#host = host;
    this.#stored = stored;
    this.#feed = new InputFeed(this.#logs, stored.writers, stored.nextSeqno);
    if (stored.aborted) this.abort();
  }

  /** Once: later calls do nothing. */
  start(application: Application): void {
    if (this.#hasStarted || this.#stored.end !== undefined) return;
    this.#hasStarted = true;
    void this.#run(application);
  }

  get isRunning(): boolean {
    return this.#isRunning;
  }

  /** The application needs something from its client before it can do more, and there is nothing that it has not read. */
  get isWaiting(): boolean {
    return this.#isWaiting && this.unreadBytes === 0;
  }

  /** What the client said and the application has not read. */
  get unreadBytes(): number {
    return this.#feed.unreadBytes;
  }

  push(input: ClientInput): void {
    this.#feed.push(input);
  }

  abort(): void {
    this.#abort.abort(new HoldfastError("stream_ended", MESSAGES.stream_ended));
    this.#feed.finish();
  }

  /** The end is durable: there is nothing left to read. */
  finish(): void {
    this.#feed.finish();
  }

  /** `hasMoved`: another host makes the model's call anew, and cannot reach one that is held here. */
  lose({ hasMoved = false } = {}): void {
    this.#isLost = true;
    // Most streams are let go of when their turn is long over: no application runs that could listen.
    if (this.#isRunning) {
      const { unavailable: message } = MESSAGES;
      this.#abort.abort(hasMoved ? new HoldfastError("unavailable", message) : new LetGo(message));
    }
    this.#feed.finish();
    for (const { event } of this.#waiting) event.refused("unavailable");
    this.#waiting = [];
  }

  accepted(event: PendingEvent, eventId: number): void {
    this.#waiting.push({ event, eventId });
  }

  /** Events up to this one are durable. */
  durable(eventHead: number): void {
    const after = this.#waiting.findIndex(({ eventId }) => eventId > eventHead);
    const done = this.#waiting.splice(0, after === -1 ? this.#waiting.length : after);
    for (const { event, eventId } of done) event.durable(eventId);
  }

  async #run(application: Application): Promise<void> {
    this.#isRunning = true;
    let reason: "completed" | "failed" = "completed";
    try {
      await application(this.#stream());
    } catch (cause) {
      reason = "failed";
      const isExpected = this.#abort.signal.aborted || cause instanceof HoldfastError;
      if (!isExpected) this.#host.onBug(cause);
    }
    this.#isRunning = false;
    if (this.#overflow !== undefined) {
      // An event is missing from the log, and an application that did not wait for it cannot know.
      reason = "failed";
      this.#host.onBug(this.#overflow);
    }
    if (!this.#hasEnded && !this.#isLost) void unwatched(this.#send(new Uint8Array(), reason));
  }

  #stream(): ApplicationStream {
    const { secretName, isNew } = this.#host;
    const { hostEpoch } = this.#stored;
    return {
      principal: this.#name.principal,
      idempotencyKey: this.#name.idempotencyKey,
      pastInputs: this.#feed.pastInputs,
      inputs: this.#feed,
      past: () => this.#past(),
      emit: (body, kept) => unwatched(this.#send(body, undefined, kept)),
      end: (body, reason = "completed") => unwatched(this.#send(body, reason)),
      blobs: this.#host.blobs,
      conversation: this.#host.conversation(),
      lasting: secretName === undefined ? undefined : { secretName, hostEpoch, isNew },
      waits: (isWaiting) => void (this.#isWaiting = isWaiting),
      signal: this.#abort.signal,
    };
  }

  /** No async function: there is one call for every event, and each promise in it would be paid for. */
  #send(
    body: Uint8Array,
    end: "completed" | "failed" | undefined,
    kept: readonly KeptBlob[] = [],
  ): Promise<number> {
    if (body.length > LIMITS.eventBytesMax) {
      const message = `an event has at most ${LIMITS.eventBytesMax} bytes; put the rest in a blob`;
      return Promise.reject(new HoldfastError("too_large", message));
    }
    // The end always fits: without it a stream would never be over (F1).
    if (end === undefined && this.#waitingBytes > LIMITS.sendQueueBytesMax) {
      const lost = new HoldfastError("overloaded", "too many events wait for the store: await emit");
      this.#overflow ??= lost;
      return Promise.reject(lost);
    }
    // Its length as it is now: the buffer may be handed to another thread meanwhile, which empties it.
    let { length } = body;
    for (const { bytes } of kept) length += bytes.length;
    this.#waitingBytes += length;
    if (end !== undefined) this.#hasEnded = true;
    return new Promise((resolve, reject) => {
      const event: PendingEvent = {
        body,
        kept,
        durable: (eventId) => {
          this.#waitingBytes -= length;
          resolve(eventId);
        },
        refused: (code) => {
          this.#waitingBytes -= length;
          reject(new HoldfastError(code, MESSAGES[code]));
        },
      };
      if (end === undefined) this.#host.emit(event);
      else this.#host.end(event, end);
    });
  }

  async *#past(): AsyncGenerator<PastEvent> {
    const { eventFloor, eventHead } = this.#stored;
    let next = eventFloor;
    this.#host.readingBack(true);
    try {
      // Clients wait for words that are in the log, and the application for nothing that they do not: on one core it would double their time.
      if (eventHead - eventFloor > SHORT_LOG) await this.#host.readersServed();
      while (next <= eventHead) {
        for (const { eventId, body } of await this.#logs.readEvents(next)) {
          if (eventId > eventHead) return;
          yield { eventId, body };
          next = eventId + 1;
        }
      }
    } finally {
      this.#host.readingBack(false);
    }
  }
}

/** An application that does not await an event must not bring the process down when it fails. */
function unwatched<Value>(promise: Promise<Value>): Promise<Value> {
  promise.catch(ignored);
  return promise;
}

function ignored(): void {}

/** The host learns of a failed read before the application does. */
function guarded(logs: LogReader, onFailure: () => void): LogReader {
  const guard = <Value>(reading: Promise<Value>): Promise<Value> =>
    reading.catch((cause: unknown) => {
      onFailure();
      throw cause;
    });
  return {
    readEvents: (from) => guard(logs.readEvents(from)),
    readChunks: (from) => guard(logs.readChunks(from)),
  };
}
