/** Settings of a client that lie in a file of JSON: read as a whole, and written as the file was. */
import { failure } from "../../node/failures.ts";
import { isJsonObject, type JsonObject } from "../../protocol/chat-message.ts";

/** `file`: what it is, for people. */
export function jsonObjectOf(text: string, file: string): JsonObject {
  try {
    const value: unknown = JSON.parse(text);
    if (isJsonObject(value)) return value;
  } catch {
    // Said below, without what is in it.
  }
  throw failure(
    `${file} is not a plain JSON object (comments are not read): put the settings in by hand, as they are printed without --write`,
  );
}

/** Indented as the file was. */
export function writtenLike(value: JsonObject, like: string | undefined): string {
  const indent = /^(?<indent>[ \t]+)\S/m.exec(like ?? "")?.groups?.["indent"] ?? "  ";
  return `${JSON.stringify(value, undefined, indent)}\n`;
}
