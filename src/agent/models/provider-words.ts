/**
 * What a provider said, made fit to be shown and logged.
 *
 * A message goes into events, terminals and logs. It is short, on one line, and holds no secret that we know, nothing
 * that looks like one, and no piece of the prompt (some servers quote the request in their errors).
 */
import type { LanguageModelV4Prompt } from "@ai-sdk/provider";
import { firstChars } from "../../protocol/characters.ts";

const WORDS_CHARS_MAX = 300;
/** This many characters in common with the prompt are no coincidence. */
const QUOTE_CHARS = 24;

const LOOKS_SECRET = /\b(?:sk|pk|rk|key|AIza)[-_]?[A-Za-z0-9*_-]{12,}/g;

export function cleanedWords(
  words: string,
  secrets: readonly string[],
  prompt: LanguageModelV4Prompt,
): string {
  const hidden = secrets.reduce((text, secret) => text.replaceAll(secret, "***"), words);
  const line = hidden
    .replace(LOOKS_SECRET, "***")
    .replace(/[\p{Cc}\p{Cf}\s]+/gu, " ")
    .trim();
  if (quotes(line, prompt)) return "";
  return firstChars(line, WORDS_CHARS_MAX, " ...");
}

function quotes(line: string, prompt: LanguageModelV4Prompt): boolean {
  const told = JSON.stringify(prompt, (_, value: unknown) =>
    value instanceof Uint8Array ? "" : value,
  ).replace(/\s+/g, " ");
  const escaped = JSON.stringify(line).slice(1, -1);
  for (let at = 0; at + QUOTE_CHARS <= escaped.length; at++) {
    if (told.includes(escaped.slice(at, at + QUOTE_CHARS))) return true;
  }
  return false;
}
