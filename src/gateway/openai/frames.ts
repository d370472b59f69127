/**
 * Server-sent event frames, and the ids by which a reader comes back.
 *
 * One event of the stream may become several frames, and a connection may break between them. So an id says how far the
 * reader is: `12` has all of event 12; `11.2` has everything through event 11, and two frames of what follows. An event in progress is
 * counted from the event before it, so whoever resumes attaches after a whole event and passes over a number of frames.
 */

export interface Frame {
  /** Absent for frames that are no progress. */
  readonly id?: string;
  readonly data: string;
}

/** A reader's place. */
export interface FramePlace {
  /** All of this event was seen; 0 = nothing. */
  readonly eventId: number;
  /** So many frames of what follows it were seen. */
  readonly frames: number;
}

/** No `data` of ours has a line break: it is JSON in one line, or a word. */
export function sseFrame({ id, data }: Frame): string {
  return id === undefined ? `data: ${data}\n\n` : `id: ${id}\ndata: ${data}\n\n`;
}

export function framePlaceId({ eventId, frames }: FramePlace): string {
  return frames === 0 ? String(eventId) : `${eventId}.${frames}`;
}

const PLACE = /^(0|[1-9]\d{0,14})(?:\.([1-9]\d{0,5}))?$/;

/** Undefined for what is no id of ours. */
export function parseFramePlace(id: string): FramePlace | undefined {
  const [, eventId, frames = "0"] = PLACE.exec(id) ?? [];
  return eventId === undefined ? undefined : { eventId: Number(eventId), frames: Number(frames) };
}

export const DONE: Frame = { data: "[DONE]" };
