/**
 * Server-sent event frames, and the ids by which a reader resumes.
 *
 * An id says which answer of the stream it is part of, by the event that the answer begins after, and how far its reader is. One event may
 * become several frames, and a connection may break between them: `8:12` has all of event 12; `8:11.2` has everything through event 11, and
 * two frames of what follows. An event in progress is counted from the event before it, so a reader that resumes attaches after a whole event and
 * passes over a number of frames.
 *
 * Ids of the Messages door begin with an m. Its frames before a text (a block ends, a block starts) depend on what follows, so an id inside an event also says
 * what that is: `m8:11.2t` has two frames of a text behind event 11.
 *
 * Invariant: every frame has an id. One that is no progress (the role, a heartbeat, the end) repeats the place where its reader is.
 */

export interface Frame {
  readonly id: string;
  /** Of doors that name their events beside the data. */
  readonly event?: string;
  readonly data: string;
}

/** A reader's place. */
export interface FramePlace {
  /** The answer begins after this event. */
  readonly answer: number;
  /** All of this event was seen; the answer's own number: nothing of it. */
  readonly eventId: number;
  /** So many frames of what follows it were seen. */
  readonly frames: number;
  /** Default: chat. */
  readonly door?: "messages";
  /** What these frames are of: a thought, its signature, text, or the end. */
  readonly begun?: FrameKind;
}

export type FrameKind = "h" | "s" | "t" | "e";

/** No `data` of ours has a line break: it is JSON in one line, or a word. */
export function sseFrame({ id, event, data }: Frame): string {
  const named = event === undefined ? "" : `event: ${event}\n`;
  return `${named}id: ${id}\ndata: ${data}\n\n`;
}

export function framePlaceId({ door, answer, eventId, frames, begun }: FramePlace): string {
  const mark = door === undefined ? "" : "m";
  return `${mark}${answer}:${eventId}${frames === 0 ? "" : `.${frames}${begun ?? ""}`}`;
}

const PLACE = /^(0|[1-9]\d{0,14}):(0|[1-9]\d{0,14})(?:\.([1-9]\d{0,5}))?$/;
const MESSAGE_PLACE = /^m(.*?)([hste]?)$/;

/** Undefined for what is no id of ours. */
export function parseFramePlace(id: string): FramePlace | undefined {
  const [, rest, letter] = MESSAGE_PLACE.exec(id) ?? [];
  const [, answer, eventId, frames = "0"] = PLACE.exec(rest ?? id) ?? [];
  if (answer === undefined || eventId === undefined || Number(eventId) < Number(answer)) return undefined;
  const place = { answer: Number(answer), eventId: Number(eventId), frames: Number(frames) };
  if (rest === undefined) return place;
  const begun = KINDS.find((kind) => kind === letter);
  if ((begun === undefined) !== (place.frames === 0)) return undefined;
  return { ...place, door: "messages", ...(begun === undefined ? {} : { begun }) };
}

const KINDS: readonly FrameKind[] = ["h", "s", "t", "e"];
