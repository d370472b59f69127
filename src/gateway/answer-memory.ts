/**
 * The events of an answer under way, as the gateway has heard them, and how many responses read it.
 *
 * Memory keeps events and not what was made of them: each reader projects them for itself, from wherever it stands. Only events
 * that change an answer are kept. All but the newest are joined, so a long answer takes up little more than its text; where one event ended and the next began
 * is kept as numbers, so that a reader that returns is served from memory however far behind it is. When the answer is complete
 * and no response reads it, memory drops it (F2). What memory does not have is read from the stream.
 *
 * After a restart the stream is read back. Memory knows then where its log ended, and which calls of the stream are held beside the server.
 *
 * Invariant: the event that ends an answer is given out only after `settle` was called for it.
 */
import { ChangeSignal } from "../async/change-signal.ts";
import { HoldfastError } from "../protocol/errors.ts";
import type { AnswerEvent } from "./openai/index.ts";
import { pieceMessage, updateOf } from "../turn/messages.ts";

/** An event of a stream that an answer is made of. */
export interface HeardEvent extends AnswerEvent {
  /** Set on text that memory has joined: the event before its first. */
  readonly joinedAfter?: number;
  /** An answer ends with it. */
  readonly isPause: boolean;
  /** Of text that was joined here: the id of each event in it but the last, and how much of the text ends with that event, one after the other. */
  readonly borders?: readonly number[];
}

/** So many events are kept one by one. */
const NEWEST_KEPT = 512;
/** The text of one joined event, and so of one frame for a client. */
const JOINED_CHARS_MAX = 64 * 1024;

export class AnswerMemory {
  /** The answer begins after this event. */
  readonly fromEvent: number;
  readonly #onReaders: (memory: AnswerMemory) => void;
  readonly #changes = new ChangeSignal();
  #events: HeardEvent[];
  /** Memory has every event after this one. */
  #heldFrom: number;
  #lastEvent: number;
  #joinAbove = 2 * NEWEST_KEPT;
  #pausedAt: number | undefined;
  #readers = 0;
  #end: { readonly failure: Error | undefined } | undefined;
  /** Where the log ended that is read back; undefined before the server has said it. An answer that began in this process has nothing to read back. */
  #logEnd: number | undefined = 0;
  #heardThrough = 0;
  /** The names of model calls of this stream that outlived its server. An attempt that made one of them does not begin its text anew. */
  readonly held = new Set<string>();

  /** `onReaders` is called when a response begins or stops to read. */
  constructor(
    fromEvent: number,
    onReaders: (memory: AnswerMemory) => void,
    events: readonly HeardEvent[] = [],
  ) {
    this.fromEvent = fromEvent;
    this.#onReaders = onReaders;
    this.#events = [...events];
    this.#heldFrom = fromEvent;
    this.#lastEvent = events.at(-1)?.eventId ?? fromEvent;
  }

  /** The last event that changed the answer. */
  get lastEvent(): number {
    return this.#lastEvent;
  }

  /** The last event that completed the answer and was settled. */
  get pausedAt(): number | undefined {
    return this.#pausedAt;
  }

  get readers(): number {
    return this.#readers;
  }

  get size(): number {
    return this.#events.length;
  }

  /** What follows this answer: the events after its last pause. */
  successor(): AnswerMemory {
    const from = this.#pausedAt ?? this.fromEvent;
    return new AnswerMemory(
      from,
      this.#onReaders,
      this.#events.filter(({ eventId }) => eventId > from),
    );
  }

  add(event: HeardEvent): void {
    this.#events.push(event);
    this.#lastEvent = event.eventId;
    if (this.#events.length > this.#joinAbove) {
      const old = this.#events.slice(0, -NEWEST_KEPT);
      this.#events = [...joined(old), ...this.#events.slice(-NEWEST_KEPT)];
      this.#joinAbove = this.#events.length + NEWEST_KEPT;
    }
    this.#changes.notify();
  }

  /** The stream is about to be read back from its log. */
  readBack(): void {
    this.#logEnd = undefined;
  }

  /** The server says where the log ends. The first time counts: later events reach this process as they are made. */
  welcomed(head: number): void {
    this.#logEnd ??= head;
    this.#changes.notify();
  }

  /** An event was read, whether or not it changed the answer. True when the log is read back with it. */
  heard(eventId: number): boolean {
    const wasBehind = this.isBehind;
    this.#heardThrough = eventId;
    if (!wasBehind || this.isBehind) return false;
    this.#changes.notify();
    return true;
  }

  /** The last event that was read. */
  get heardThrough(): number {
    return this.#heardThrough;
  }

  /** True while the stream's log is being read back. */
  get isBehind(): boolean {
    return this.#heardThrough < (this.#logEnd ?? Infinity);
  }

  /** Where the log ended. Throws when the stream ends before the server has said it. */
  async logEnd(signal: AbortSignal): Promise<number> {
    await this.#changes.until(() => this.#logEnd !== undefined || this.#end !== undefined, signal);
    if (this.#logEnd === undefined) throw this.#end?.failure ?? cutOff();
    return this.#logEnd;
  }

  /** Resolves when the log is read back through this event. */
  async readThrough(eventId: number, signal: AbortSignal): Promise<void> {
    const isRead = (): boolean => this.#heardThrough >= eventId || !this.isBehind;
    await this.#changes.until(() => isRead() || this.#end !== undefined, signal);
  }

  /** Resolves when memory has what the log had. */
  async caughtUp(signal: AbortSignal): Promise<void> {
    await this.#changes.until(() => !this.isBehind || this.#end !== undefined, signal);
  }

  /** Resolves when the stream has said more of the answer than its log had. */
  async saidMore(signal: AbortSignal): Promise<void> {
    const logEnd = this.#logEnd ?? 0;
    await this.#changes.until(() => this.#lastEvent > logEnd || this.#end !== undefined, signal);
  }

  /** What a later request needs of this pause is durable: readers may have it. */
  settle(eventId: number): void {
    this.#pausedAt = eventId;
    this.#trim();
    this.#changes.notify();
  }

  /** Nothing follows. A reader that waits for more gets the failure; the first call counts. */
  finish(failure: Error | undefined): void {
    this.#end ??= { failure };
    this.#changes.notify();
  }

  /** A response reads the answer, from memory or from the stream, until it calls what this returns. */
  attend(): () => void {
    const count = (by: number): void => {
      this.#readers += by;
      this.#trim();
      this.#onReaders(this);
    };
    count(1);
    let leave: (() => void) | undefined = () => count(-1);
    return () => {
      leave?.();
      leave = undefined;
    };
  }

  /** True when a reader positioned at this event can be served from memory. */
  holds(eventId: number): boolean {
    return this.#heldFrom === this.fromEvent && eventId >= this.fromEvent;
  }

  /**
   * The events after this one, as they come; none has text from before and from behind `border`. Ends behind a pause, and when the place is no
   * longer held.
   */
  async *events(after: number, signal: AbortSignal, border = after): AsyncGenerator<HeardEvent, void> {
    for (let last = after; this.#heldFrom <= last;) {
      const event = this.#next(last, border);
      if (event !== undefined) {
        yield event;
        if (event.isPause) return;
        last = event.eventId;
      } else if (this.#end === undefined) {
        await this.#changes.until(() => this.#lastEvent > last || this.#end !== undefined, signal);
        if (signal.aborted) throw cutOff();
      } else {
        throw this.#end.failure ?? cutOff();
      }
    }
  }

  /** Those of them that memory has now, through this one. */
  *known(after: number, through: number, border: number): Generator<HeardEvent, void> {
    if (this.#heldFrom > after) return;
    for (let event = this.#next(after, border); event !== undefined && event.eventId <= through;) {
      yield event;
      event = event.isPause ? undefined : this.#next(event.eventId, border);
    }
  }

  /** Resolves when what the stream said up to this event may be given out. */
  async settled(eventId: number, signal: AbortSignal): Promise<void> {
    const isSettled = (): boolean => (this.#pausedAt ?? this.fromEvent) >= eventId;
    await this.#changes.until(() => isSettled() || this.#end !== undefined, signal);
    if (!isSettled()) throw this.#end?.failure ?? cutOff();
  }

  /** The event behind this place; what is joined is parted there and at the border. */
  #next(place: number, border: number): HeardEvent | undefined {
    let [low, high] = [0, this.#events.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#events[middle]?.eventId ?? Infinity) > place) high = middle;
      else low = middle + 1;
    }
    const event = this.#events[low];
    return event && partOf(event, place, border > place ? border : Infinity);
  }

  #trim(): void {
    const pausedAt = this.#pausedAt;
    if (pausedAt === undefined || this.#readers > 0) return;
    this.#events = this.#events.filter(({ eventId }) => eventId > pausedAt);
    this.#heldFrom = pausedAt;
  }
}

export function cutOff(): HoldfastError {
  return new HoldfastError("unavailable", "the answer was cut off; try again");
}

/** What of the event is behind `from` and not behind `through`: joined text is parted there. */
function partOf(event: HeardEvent, from: number, through: number): HeardEvent {
  const { joinedAfter = event.eventId } = event;
  const isInside = (place: number): boolean => joinedAfter < place && place < event.eventId;
  const piece = textIn(event);
  if (piece === undefined || (!isInside(from) && !isInside(through))) return event;
  const end = isInside(through) ? through : event.eventId;
  const text = piece.value.text.slice(charsThrough(event, from), charsThrough(event, end));
  return joint(piece.case, end, text, Math.max(joinedAfter, from));
}

/** How much of the joined text a reader at this place has. */
function charsThrough({ eventId, borders = [] }: HeardEvent, place: number): number | undefined {
  if (place >= eventId) return undefined;
  let [low, high] = [0, borders.length / 2];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((borders[2 * middle] ?? Infinity) <= place) low = middle + 1;
    else high = middle;
  }
  return borders[2 * low - 1] ?? 0;
}

/** Neighbouring text as one event; each keeps the id of its last. */
function joined(events: readonly HeardEvent[]): readonly HeardEvent[] {
  const all: HeardEvent[] = [];
  let borders: number[] = [];
  for (const event of events) {
    const before = all.at(-1);
    const both = before === undefined ? undefined : joinedOf(before, event);
    if (before === undefined || both === undefined) {
      borders = [...(event.borders ?? [])];
      all.push(event);
      continue;
    }
    const { length } = textIn(before)?.value.text ?? "";
    borders.push(before.eventId, length);
    const { borders: more = [] } = event;
    for (const [at, number] of more.entries()) borders.push(at % 2 === 0 ? number : number + length);
    all.splice(-1, 1, { ...both, borders });
  }
  return all;
}

/** Undefined when they stay two. */
function joinedOf(before: HeardEvent, event: HeardEvent): HeardEvent | undefined {
  const [a, b] = [textIn(before), textIn(event)];
  if (a === undefined || b === undefined || a.case !== b.case) return undefined;
  const text = a.value.text + b.value.text;
  if (text.length > JOINED_CHARS_MAX) return undefined;
  const { joinedAfter = before.eventId - 1 } = before;
  return joint(a.case, event.eventId, text, joinedAfter);
}

function joint(
  kind: "textDelta" | "thinkingDelta",
  eventId: number,
  text: string,
  joinedAfter: number,
): HeardEvent {
  return { eventId, message: pieceMessage(kind, text), joinedAfter, isPause: false };
}

/** The piece of text or thinking that the event is. */
export function textIn({ message }: AnswerEvent) {
  const update = updateOf(message);
  return update.case === "textDelta" || update.case === "thinkingDelta" ? update : undefined;
}
