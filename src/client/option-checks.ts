/**
 * How options are looked at: one that is wrong is refused by its name, with what would be right.
 *
 * TypeScript sees most mistakes; a program in JavaScript, or one that reads its options from a file, hears of them here
 * and not from a stream that fails later.
 */
import { HoldfastError } from "../protocol/errors.ts";

/** Timers of browsers and of Node cannot wait longer: 24 days. */
const TIMER_MS_MAX = 2 ** 31 - 1;

export function invalidOption(message: string): HoldfastError {
  return new HoldfastError("invalid_argument", message);
}

/** Refuses what is no object, and names that are not among those of `known`: most of them are misspelt. */
export function checkNames(name: string, given: unknown, known: object): void {
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    throw invalidOption(`${name} must be an object`);
  }
  for (const one of Object.keys(given)) {
    if (Object.hasOwn(known, one)) continue;
    throw invalidOption(`there is no option ${name}.${one}; there are ${Object.keys(known).join(", ")}`);
  }
}

export function flag(name: string, value: boolean | undefined, byDefault: boolean): boolean {
  if (value === undefined || typeof value === "boolean") return value ?? byDefault;
  throw invalidOption(`${name} must be true or false`);
}

export function checkWhole(name: string, value: number | undefined, least: number): void {
  if (value === undefined || (Number.isSafeInteger(value) && value >= least)) return;
  throw invalidOption(`${name} must be a whole number, at least ${least}`);
}

/** Any number from `least` on; infinity is one. */
export function numberFrom(
  name: string,
  value: number | undefined,
  least: number,
  byDefault: number,
): number {
  if (value === undefined) return byDefault;
  if (typeof value === "number" && value >= least) return value;
  throw invalidOption(`${name} must be a number, at least ${least}`);
}

/** Milliseconds that a timer can wait. */
export function timerMs(name: string, value: number | undefined, byDefault: number): number {
  if (value === undefined) return byDefault;
  if (typeof value === "number" && value >= 1 && value <= TIMER_MS_MAX) return value;
  throw invalidOption(`${name} must be a number of milliseconds, from 1 to ${TIMER_MS_MAX}`);
}

export function oneOf<Choice extends string>(
  name: string,
  value: Choice,
  choices: readonly Choice[],
): Choice {
  if (choices.includes(value)) return value;
  throw invalidOption(`${name} must be one of ${choices.join(", ")}, not ${JSON.stringify(value)}`);
}

export function checkText(name: string, value: string | undefined): void {
  if (value === undefined || (typeof value === "string" && value !== "")) return;
  throw invalidOption(`${name} must be a text that is not empty`);
}

export function checkFunction(name: string, value: unknown): void {
  if (value === undefined || typeof value === "function") return;
  throw invalidOption(`${name} must be a function`);
}

/** An object of yours that is called later: whether it has what will be called. */
export function checkMethods(name: string, value: object | undefined, methods: readonly string[]): void {
  if (value === undefined) return;
  if (typeof value !== "object" || value === null) throw invalidOption(`${name} must be an object`);
  for (const method of methods) {
    const found: unknown = Reflect.get(value, method);
    if (typeof found !== "function") throw invalidOption(`${name}.${method} must be a function`);
  }
}
