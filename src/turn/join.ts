/**
 * Where the text of one generation is continued by another one of the same model, and how that is proved. Pure.
 *
 * The model gets the text so far as the beginning of its answer, but for the last piece of it: the last words, from the white space before them
 * on. What it writes must begin with that piece: this proves that it writes on from there, and heals a word whose token was cut in half. One letter
 * proves nothing: an answer that is begun anew may well begin with it. So the piece has a few, and what begins like the answer is no continuation.
 * A model that has proved this before, and does not do it here, gets the whole text once: then the join can only tell an echo from a continuation. Where no white
 * space stands between the two, a provider may have trimmed it, and half a word looks like two words: that is no continuation either.
 *
 * Providers trim white space at the end of a prompt, and some at the beginning of what is written. So no prompt ends with it, and what the
 * log has of it is neither expected nor said a second time.
 *
 * Invariant: the text so far and the news are the text so far and what the model wrote behind it; no news leave before the join is proved, or
 * before it is known to be no echo (G1).
 */
import { cutAt } from "../protocol/characters.ts";

/** The longest piece that is cut off; where a word is longer, it is cut, between characters. The shortest, where the text is longer. */
const PIECE_CHARS_MAX = 32;
const PIECE_CHARS_MIN = 12;

/** An answer that is begun anew begins like the answer; one that repeats where it was cut off begins like its end. */
const ECHO_BEGIN_CHARS = 32;
const ECHO_END_CHARS = 16;

const LAST_WORD = /\s\S*$/u;

export interface JoinAt {
  /** The text that the log has. */
  readonly text: string;
  readonly isUnproved: boolean;
}

interface Cut {
  /** What the model gets as the beginning of its answer. */
  readonly prompt: string;
  /** What the log has behind it. */
  readonly piece: string;
}

function cut({ text, isUnproved }: JoinAt): Cut {
  const words = text.trimEnd();
  if (isUnproved) return { prompt: words, piece: text.slice(words.length) };
  const latest = cutAt(words, Math.max(0, words.length - PIECE_CHARS_MAX));
  const early = words.slice(0, Math.max(0, words.length - PIECE_CHARS_MIN)).search(LAST_WORD);
  const at = early === -1 ? words.search(LAST_WORD) : early;
  const prompt = words.slice(0, Math.max(at, latest)).trimEnd();
  return { prompt, piece: text.slice(prompt.length) };
}

/** Empty when there is no text to begin with: it is too short. */
export function promptOf(join: JoinAt): string {
  return cut(join).prompt;
}

export class Join {
  readonly #join: JoinAt;
  readonly #piece: string;
  /** What was written and is not judged yet; undefined: the join is made. */
  #heard: string | undefined = "";

  constructor(join: JoinAt) {
    this.#join = join;
    this.#piece = cut(join).piece;
  }

  get isMade(): boolean {
    return this.#heard === undefined;
  }

  /** What the log lacks of it, as far as that is known; undefined: the model does not continue the text. */
  take(words: string): string | undefined {
    if (this.#heard === undefined) return words;
    this.#heard += words;
    return this.#join.isUnproved ? this.#unproved(this.#heard, false) : this.#proved(this.#heard, false);
  }

  /** The model has ended its answer, or begins a tool call. */
  end(): string | undefined {
    if (this.#heard === undefined) return "";
    return this.#join.isUnproved ? this.#unproved(this.#heard, true) : this.#proved(this.#heard, true);
  }

  #proved(heard: string, isAll: boolean): string | undefined {
    const pieces = [this.#piece, this.#piece.trimStart()];
    const said = pieces.find((piece) => heard.startsWith(piece));
    if (said !== undefined) return this.#unlessEcho([this.#beginning], heard, isAll, said.length);
    return !isAll && pieces.some((piece) => piece.startsWith(heard)) ? "" : undefined;
  }

  #unproved(heard: string, isAll: boolean): string | undefined {
    const echoes = [this.#beginning, this.#join.text.trimEnd().slice(-ECHO_END_CHARS)];
    if (this.#piece === "" && /^\S/u.test(heard)) return undefined;
    let known = 0;
    while (known < this.#piece.length && heard[known] === this.#piece[known]) known++;
    return this.#unlessEcho(echoes, heard, isAll, known);
  }

  get #beginning(): string {
    return this.#join.text.trimStart().slice(0, ECHO_BEGIN_CHARS);
  }

  /** `known`: so much of what was heard the log has. */
  #unlessEcho(echoes: readonly string[], heard: string, isAll: boolean, known: number): string | undefined {
    const begun = heard.trimStart();
    if (echoes.some((echo) => begun.startsWith(echo))) return undefined;
    if (!isAll && echoes.some((echo) => echo.startsWith(begun))) return "";
    this.#heard = undefined;
    return heard.slice(known);
  }
}
