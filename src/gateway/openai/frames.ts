/**
 * Server-sent event frames, and the ids by which a reader comes back.
 *
 * An id says which answer of the stream it is part of, by the event that the answer begins after, and how far its reader is. One event may
 * become several frames, and a connection may break between them: `8:12` has all of event 12; `8:11.2` has everything through event 11, and
 * two frames of what follows. An event in progress is counted from the event before it, so whoever resumes attaches after a whole event and
 * passes over a number of frames.
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
}

/** No `data` of ours has a line break: it is JSON in one line, or a word. */
export function sseFrame({ id, event, data }: Frame): string {
  const named = event === undefined ? "" : `event: ${event}\n`;
  return `${named}id: ${id}\ndata: ${data}\n\n`;
}

export function framePlaceId({ answer, eventId, frames }: FramePlace): string {
  return frames === 0 ? `${answer}:${eventId}` : `${answer}:${eventId}.${frames}`;
}

const PLACE = /^(0|[1-9]\d{0,14}):(0|[1-9]\d{0,14})(?:\.([1-9]\d{0,5}))?$/;

/** Undefined for what is no id of ours. */
export function parseFramePlace(id: string): FramePlace | undefined {
  const [, answer, eventId, frames = "0"] = PLACE.exec(id) ?? [];
  if (answer === undefined || eventId === undefined || Number(eventId) < Number(answer)) return undefined;
  return { answer: Number(answer), eventId: Number(eventId), frames: Number(frames) };
}
