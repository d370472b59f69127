/**
 * The switches of a client as the environment sets them: for programs that leave the options to those who start them.
 */
import { invalidOption } from "../client/option-checks.ts";
import type { Switches } from "../client/stream-options.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** Only what is set. Throws, with the variable's name, when one is set to something that it cannot be. */
export function environmentSwitches(environment: Environment): Switches {
  const reliable = yesOrNo(environment, "HOLDFAST_RELIABLE");
  const persistence = yesOrNo(environment, "HOLDFAST_PERSISTENCE");
  const retryLookbackWindowMs = milliseconds(environment, "HOLDFAST_RETRY_LOOKBACK_WINDOW_MS");
  return {
    ...(reliable === undefined ? {} : { reliable }),
    ...(persistence === undefined ? {} : { persistence }),
    ...(retryLookbackWindowMs === undefined ? {} : { retryLookbackWindowMs }),
  };
}

function yesOrNo(environment: Environment, name: string): boolean | undefined {
  const text = environment[name];
  switch (text?.toLowerCase()) {
    case undefined:
    case "":
      return undefined;
    case "1":
    case "true":
    case "on":
      return true;
    case "0":
    case "false":
    case "off":
      return false;
    default:
      throw invalidOption(`${name} must be 1 or 0 (or true, false, on, off), not ${JSON.stringify(text)}`);
  }
}

function milliseconds(environment: Environment, name: string): number | undefined {
  const text = environment[name] ?? "";
  if (text === "") return undefined;
  const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isSafeInteger(value)) return value;
  throw invalidOption(`${name} must be a whole number of milliseconds, not ${JSON.stringify(text)}`);
}
