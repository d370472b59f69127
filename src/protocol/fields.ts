/**
 * Values that come from outside, before any schema has looked at them.
 */

type Fields = Readonly<Record<string, unknown>>;

/** The value, its fields to be looked at one by one; without any where it is no object. */
export function fieldsOf(value: unknown): Fields {
  return isObject(value) ? value : {};
}

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null;
}

/** What the text says as JSON; undefined when it is no JSON. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
