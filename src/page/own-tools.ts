/**
 * What a model may do in this page: tell the time, run a timer, and read and write notes that this browser keeps.
 *
 * They run in this tab, each call at most once, also over a reload. Writing asks first, and shows what it would change.
 */
import type { Tool } from "../react/index.ts";
import { fieldsOf } from "../protocol/fields.ts";

/** What a person sees before a yes: the change itself, or the arguments whole. */
type Preview =
  | { readonly kind: "diff"; readonly name: string; readonly before: string; readonly after: string }
  | { readonly kind: "arguments"; readonly text: string };

export const OWN_TOOLS: Readonly<Record<string, Tool>> = {
  time: {
    description: "Tells the time of day in a city",
    parameters: objectOf({ city: { type: "string", description: "such as Oslo or New York" } }),
    repeatable: true,
    needsApproval: false,
    run: async (args) => timeIn(textOf(args, "city")),
  },
  timer: {
    description: "Waits for some seconds, at most 600, and says each that has passed",
    parameters: objectOf({ seconds: { type: "integer", minimum: 1, maximum: 600 } }),
    repeatable: true,
    needsApproval: false,
    run: async (args, { signal, progress }) => {
      const seconds = Math.min(600, Math.max(1, Math.round(Number(fieldsOf(args)["seconds"]) || 1)));
      for (let passed = 1; passed <= seconds; passed++) {
        await pause(1_000, signal);
        progress(`${passed} of ${seconds} s`);
      }
      return `${seconds} seconds have passed`;
    },
  },
  read_note: {
    description: "Reads a note of the user, by its name",
    parameters: objectOf({ name: { type: "string" } }),
    repeatable: true,
    needsApproval: false,
    run: async (args) => {
      const name = textOf(args, "name");
      const text = noteOf(name);
      return text ?? { text: `there is no note "${name}"`, isError: true };
    },
  },
  write_note: {
    description: "Writes a note of the user; what was in it is replaced",
    parameters: objectOf({ name: { type: "string" }, text: { type: "string" } }),
    repeatable: true,
    needsApproval: true,
    run: async (args) => {
      const name = textOf(args, "name");
      localStorage.setItem(placeOf(name), textOf(args, "text"));
      return `the note "${name}" is written`;
    },
  },
};

export function previewOf(tool: string, args: unknown): Preview {
  if (tool !== "write_note") return { kind: "arguments", text: JSON.stringify(args, undefined, 2) };
  const name = textOf(args, "name");
  return { kind: "diff", name, before: noteOf(name) ?? "", after: textOf(args, "text") };
}

function objectOf(properties: Readonly<Record<string, object>>): object {
  return { type: "object", properties, required: Object.keys(properties) };
}

function textOf(args: unknown, name: string): string {
  const value = fieldsOf(args)[name];
  return typeof value === "string" ? value : "";
}

const placeOf = (name: string): string => `holdfast note ${name}`;

function noteOf(name: string): string | undefined {
  return localStorage.getItem(placeOf(name)) ?? undefined;
}

/** Zones are named by their largest city. */
function timeIn(city: string): string | { readonly text: string; readonly isError: true } {
  const wanted = city.trim().toLowerCase().replaceAll(" ", "_");
  const zone = Intl.supportedValuesOf("timeZone").find((one) => one.toLowerCase().endsWith(`/${wanted}`));
  if (zone === undefined || wanted === "")
    return { text: `no time zone is named after "${city}"`, isError: true };
  const time = new Intl.DateTimeFormat("en-GB", { timeZone: zone, timeStyle: "short", dateStyle: "full" });
  return `${time.format(new Date())} (${zone})`;
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  const stop = (): void => {
    clearTimeout(timer);
    reject(new Error("the timer was stopped"));
  };
  signal.addEventListener("abort", stop, { once: true });
  return promise.finally(() => signal.removeEventListener("abort", stop));
}
