/**
 * The fields of a value that came from outside, to be looked at one by one; none where it is no object.
 */
export function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}
