/**
 * The name of a model as everything here compares and sends it.
 *
 * Some providers put the name into the path of the request. A name that could change that path (`..`, `?`, `%2e`) would pass a list of
 * allowed models as one name and reach the provider as another one. So such a name is no name at all, wherever it comes from.
 *
 * Invariant: two names that reach a provider as the same model are equal here, and a name stays inside its own path.
 */

/** Far above any name; routes and logs hold it. */
const NAME_CHARS_MAX = 512;

/** Controls and invisible characters, and what means something else in an address. */
const REFUSED = /[?#%\\\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u;

/** Behind "a model's name ...". */
export const MODEL_NAME_RULE =
  "has no ?, #, %, \\, control character, and no empty part, . or .. between its slashes";

/** The name in its one form, or undefined when it is none. */
export function modelNameOf(text: string): string | undefined {
  const name = text.trim().normalize("NFC");
  if (name === "" || name.length > NAME_CHARS_MAX || REFUSED.test(name)) return undefined;
  const isPlain = name.split("/").every((part) => part !== "" && part !== "." && part !== "..");
  return isPlain ? name : undefined;
}
