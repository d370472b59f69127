/**
 * What processes of a benchmark tell each other: flat records, numbers out, numbers and texts in.
 *
 * Everything is checked where it arrives, so a row cannot work with a number that was never measured.
 */

export type Measured = Readonly<Record<string, number>>;
export type Arguments = Readonly<Record<string, string | number | boolean>>;

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function measuredOf(value: unknown): Measured {
  if (!isRecord(value)) throw new TypeError("a measurement is a record of numbers");
  const measured: Record<string, number> = {};
  for (const [name, number] of Object.entries(value)) {
    if (typeof number !== "number") throw new TypeError(`${name} was not measured`);
    measured[name] = number;
  }
  return measured;
}

export function argumentsOf(value: unknown): Arguments {
  if (!isRecord(value)) throw new TypeError("arguments are a record");
  const given: Record<string, string | number | boolean> = {};
  for (const [name, argument] of Object.entries(value)) {
    if (typeof argument !== "string" && typeof argument !== "number" && typeof argument !== "boolean") {
      throw new TypeError(`${name} is no argument`);
    }
    given[name] = argument;
  }
  return given;
}

export function numberIn(given: Arguments, name: string): number {
  const value = given[name];
  if (typeof value !== "number" || Number.isNaN(value)) throw new TypeError(`${name} must be a number`);
  return value;
}

export function textIn(given: Arguments, name: string): string {
  const value = given[name];
  if (typeof value !== "string") throw new TypeError(`${name} must be a text`);
  return value;
}

export function flagIn(given: Arguments, name: string): boolean {
  const value = given[name];
  if (typeof value !== "boolean") throw new TypeError(`${name} must be true or false`);
  return value;
}

export function numberOf(measured: Measured, name: string): number {
  const value = measured[name];
  if (value === undefined) throw new TypeError(`${name} was not measured`);
  return value;
}
