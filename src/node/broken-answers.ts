/**
 * What the log's line of a request says of breaks at the provider: where the answer broke, and how it was continued.
 *
 * A break is known by the stream whose model was asked, a line by the request that reads the stream's answer. All requests that read it at that moment name the
 * break. While no client reads, as behind a restart, it is kept for the next request of the stream.
 *
 * Nothing of the answer is in it, and no name that a client chose (E4).
 */
import type { AskingStream } from "../agent/models/index.ts";
import { type ProviderBreaks, streamHash } from "../server/http/access-log.ts";

type Field = keyof ProviderBreaks;
/** How often each was met, by its field and word. */
type Met = Map<string, number>;

/** Streams of other clients have no such lines: the oldest are forgotten. */
const UNREAD_MAX = 1_024;

export class BrokenAnswers {
  /** What each request under way has met, by the stream that it reads. */
  readonly #readers = new Map<string, Set<Met>>();
  /** What no request has taken up yet. */
  readonly #unread = new Map<string, Met>();

  /** Returns the stream's hash; undefined when it is not known whose model was asked. */
  note(of: AskingStream, field: Field, word: string): string | undefined {
    if (of === undefined) return undefined;
    const stream = streamHash(of.principal, of.idempotencyKey);
    const name = `${field} ${word}`;
    for (const met of this.#readers.get(stream) ?? [this.#unreadOf(stream)])
      met.set(name, (met.get(name) ?? 0) + 1);
    return stream;
  }

  /** A request reads an answer of the stream of this hash. What is returned is called when it is over. */
  readonly read = (stream: string): (() => ProviderBreaks) => {
    const readers = this.#readers.get(stream) ?? new Set();
    this.#readers.set(stream, readers);
    const met: Met = this.#unread.get(stream) ?? new Map();
    this.#unread.delete(stream);
    readers.add(met);
    return () => {
      readers.delete(met);
      if (readers.size === 0) this.#readers.delete(stream);
      return { broke: wordsOf(met, "broke"), continued: wordsOf(met, "continued") };
    };
  };

  #unreadOf(stream: string): Met {
    const met: Met = this.#unread.get(stream) ?? new Map();
    this.#unread.set(stream, met);
    const [oldest] = this.#unread.keys();
    if (this.#unread.size > UNREAD_MAX && oldest !== undefined) this.#unread.delete(oldest);
    return met;
  }
}

/** As `text/eof,text/reset*2`. */
function wordsOf(met: Met, field: Field): string | undefined {
  const words = [...met]
    .filter(([word]) => word.startsWith(`${field} `))
    .map(([word, count]) => word.slice(field.length + 1) + (count === 1 ? "" : `*${count}`));
  return words.length === 0 ? undefined : words.join(",");
}
