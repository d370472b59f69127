/**
 * One text for JSON values that mean the same: no spaces, the names of every object sorted.
 *
 * Clients parse and write again what they were given; two texts that parse to the same value become the same here.
 */
import { checkJson } from "../../protocol/json-check.ts";

/** Of a JSON text; what is no JSON stands for itself, trimmed. Empty is what a call without arguments has. */
export function canonicalText(json: string): string {
  const trimmed = json.trim() || "{}";
  try {
    // Before the parser, because what follows walks the value recursively.
    checkJson(Buffer.from(trimmed));
    const value: unknown = JSON.parse(trimmed);
    return JSON.stringify(sorted(value));
  } catch {
    return trimmed;
  }
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  // Pairs, not an object: engines order names like "1" by themselves, and "__proto__" is no ordinary name.
  return { "": entries.map(([name, inner]) => [name, sorted(inner)]) };
}
