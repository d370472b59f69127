/**
 * Server-sent events, cut out of a provider's bytes: whole events only.
 *
 * What a cut connection leaves of an event is never passed on, so no parser above meets half a character or half an object.
 *
 * Invariant: the texts that came out, in order, are a prefix of what came in.
 */

/** Far above any event of a provider (images travel in them); what is longer is no event stream. */
const EVENT_CHARS_MAX = 64 * 1024 * 1024;

export interface SseEvent {
  /** Its `data` lines; empty for comments and for events without data. */
  readonly data: string;
  /** As it came, with the blank line behind it. */
  readonly text: string;
}

/** Two ends of lines, in any of the three forms; a CR whose LF is still to come counts as one. */
const BOUNDARY = /(?:\r\n|\n|\r(?!\n)){2}/g;
const LINE_END = /\r\n|\n|\r/;

export class SseSplitter {
  readonly #decoder = new TextDecoder();
  #text = "";
  /** Before this place there is no boundary. */
  #searched = 0;

  /** The events that these bytes complete. Throws a RangeError for one that never ends. */
  push(bytes: Uint8Array): readonly SseEvent[] {
    this.#text += this.#decoder.decode(bytes, { stream: true });
    const events: SseEvent[] = [];
    let from = 0;
    BOUNDARY.lastIndex = this.#searched;
    for (let found = BOUNDARY.exec(this.#text); found !== null; found = BOUNDARY.exec(this.#text)) {
      const end = found.index + found[0].length;
      events.push(eventOf(this.#text.slice(from, end)));
      from = end;
    }
    this.#text = this.#text.slice(from);
    // A boundary has up to four characters.
    this.#searched = Math.max(0, this.#text.length - 3);
    if (this.#text.length > EVENT_CHARS_MAX) throw new RangeError("an event is too long");
    return events;
  }

  /** What is left when the body has ended in good order: some servers leave out the last blank line. */
  rest(): SseEvent {
    return eventOf(`${this.#text}\n\n`);
  }
}

function eventOf(text: string): SseEvent {
  const lines = text.split(LINE_END).flatMap((line) => {
    const data = /^data:? ?(?<said>.*)$/s.exec(line)?.groups?.["said"];
    return line.startsWith("data:") && data !== undefined ? [data] : [];
  });
  return { data: lines.join("\n"), text };
}
