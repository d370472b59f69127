/**
 * A tool call's arguments on their way through the AI SDK, byte for byte.
 *
 * The SDK takes arguments as a value and writes JSON of it, which loses what JavaScript's numbers cannot hold, the order of
 * names that look like numbers, and white space. So it is given an object with one member, whose name is a secret of this
 * process and whose value is the model's own text, and in the request's body that object is replaced by the text.
 *
 * Invariant: the mark never leaves this process, and no text of a user's can be taken for it.
 */
import { randomBytes } from "node:crypto";
import { isJsonObject, type JsonObject } from "../../protocol/chat-message.ts";
import type { Fetch } from "./providers.ts";

const MARK = `verbatim-${randomBytes(16).toString("hex")}`;

/** Where the arguments are a part of the body (Anthropic, Google). */
const AS_VALUE = `{"${MARK}":`;
/** Where they are a text in the body (OpenAI). */
const AS_TEXT = `"{\\"${MARK}\\":`;

export function verbatim(args: string): JsonObject {
  return { [MARK]: args };
}

/** The body as it is to be sent. */
export function withoutMarks(body: string): string {
  const pieces: string[] = [];
  let done = 0;
  for (let at = body.indexOf(MARK); at !== -1; at = body.indexOf(MARK, done)) {
    const { from, to, text } = body.startsWith(AS_VALUE, at - 2)
      ? valueAt(body, at - 2)
      : textAt(body, at - 4);
    pieces.push(body.slice(done, from), text);
    done = to;
  }
  pieces.push(body.slice(done));
  return pieces.join("");
}

interface Found {
  readonly from: number;
  readonly to: number;
  readonly text: string;
}

function valueAt(body: string, from: number): Found {
  const begin = from + AS_VALUE.length;
  const end = literalEnd(body, begin);
  // One more for the brace that closes the object.
  return { from, to: end + 1, text: String(JSON.parse(body.slice(begin, end))) };
}

function textAt(body: string, from: number): Found {
  if (!body.startsWith(AS_TEXT, from)) throw new Error("a mark stands where no arguments are");
  const to = literalEnd(body, from);
  const held: unknown = JSON.parse(String(JSON.parse(body.slice(from, to))));
  return { from, to, text: JSON.stringify(isJsonObject(held) ? held[MARK] : undefined) };
}

/** Behind the string literal that begins at `from`. */
function literalEnd(body: string, from: number): number {
  let at = body.indexOf('"', from + 1);
  while (isEscaped(body, at)) at = body.indexOf('"', at + 1);
  return at + 1;
}

function isEscaped(body: string, at: number): boolean {
  let slashes = 0;
  while (body[at - 1 - slashes] === "\\") slashes++;
  return slashes % 2 === 1;
}

/** `fetch` for the SDK: what leaves is the model's own text. */
export function verbatimFetch(fetch: Fetch): Fetch {
  return (url, init) =>
    fetch(url, typeof init?.body === "string" ? { ...init, body: withoutMarks(init.body) } : init);
}
