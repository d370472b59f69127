/**
 * Values that come from outside, before any schema has looked at them.
 */

/** The fields of a value, to be looked at one by one; none where it is no object. */
export function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}

/** What the text says as JSON; undefined when it is no JSON. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
