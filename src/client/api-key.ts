/**
 * An API key as people hand it over: out of a file it comes with a line feed, which no header may hold.
 *
 * One that cannot be a key is refused here, by name: on its way to the server it would look like a
 * connection that breaks, and be tried for hours.
 */
import { HoldfastError } from "../protocol/errors.ts";

export type ApiKey = string | (() => Promise<string | undefined>);

const VISIBLE_ASCII = /^[\x21-\x7e]+$/;

/** What a client asks whenever it needs the key. A text is looked at now, what a function gives when it gives it. */
export function credentialsOf(apiKey: ApiKey | undefined): () => Promise<string | undefined> {
  if (typeof apiKey === "function") return async () => cleaned(await apiKey());
  const text = cleaned(apiKey);
  return async () => text;
}

/** Never says what it was (E4). */
function cleaned(apiKey: string | undefined): string | undefined {
  if (apiKey === undefined) return undefined;
  if (typeof apiKey === "string") {
    const text = apiKey.trim();
    if (text === "") return undefined;
    if (VISIBLE_ASCII.test(text)) return text;
  }
  throw new HoldfastError(
    "invalid_argument",
    "apiKey must be one word of visible ASCII characters, such as `holdfast keys create` prints; it is something else",
  );
}
