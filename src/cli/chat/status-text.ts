/**
 * The state of a stream in words: what the person in front of it should know now, and what they can do.
 */
import type { LiveState, StreamStatus, TurnPart } from "../../client/index.ts";
import { safeLine } from "./safe-text.ts";
import { toolLine } from "./tool-words.ts";

export type ShownStatus = Pick<StreamStatus, "state" | "stuck" | "failure" | "trouble">;

/** Undefined while all is well: then what the agent does is more interesting. */
export function troubleText({ state, stuck, failure, trouble }: ShownStatus): string | undefined {
  switch (state) {
    case "connecting":
      return trouble === undefined ? "connecting …" : `connecting … (${safeLine(trouble.message)})`;
    case "reconnecting":
      return `reconnecting … (${safeLine(trouble?.message ?? "the connection was lost")}); nothing is lost`;
    case "stalled":
      return `stalled: ${safeLine(stuck ?? "nothing comes from the server")}; trying to wake it up`;
    case "degraded":
      return "degraded: the server's store is down, so this turn is kept nowhere and ends with the connection";
    case "fenced":
      return `another client has taken this turn over (${safeLine(failure?.message ?? "fenced")})`;
    case "live":
    case "ended":
      return undefined;
  }
}

/** For a log without a line that can be rewritten: only what changes something for the reader. */
export function plainStatusLine(before: LiveState, now: ShownStatus): string | undefined {
  if (now.state === before && now.trouble === undefined) return undefined;
  switch (now.state) {
    case "connecting":
      return now.trouble === undefined ? undefined : `[${troubleText(now)}]`;
    case "reconnecting":
    case "stalled":
    case "degraded":
    case "fenced":
      return `[${troubleText(now)}]`;
    case "live":
      return before === "reconnecting" || before === "stalled" ? "[connected again]" : undefined;
    case "ended":
      return undefined;
  }
}

/** Its text stays as it is, so the status line says no more of it. */
export const CONTINUED = "the answer was cut off; its model is asked to write on";
const WAITING = "waiting for the model";

/** What the agent is doing, as far as the last thing that happened tells. */
export function newActivity() {
  const running = new Map<string, string>();
  let now = WAITING;

  function seeTool({ change, call: { toolCallId, tool, args } }: Extract<TurnPart, { type: "tool" }>): void {
    if (change === "writing") now = `preparing ${safeLine(tool)}`;
    if (change === "started") {
      const { name, about } = toolLine(tool, args);
      running.set(toolCallId, `${name} ${about}`.trimEnd());
    }
    if (change !== "over") return;
    running.delete(toolCallId);
    now = WAITING;
  }

  return {
    see(part: TurnPart): void {
      switch (part.type) {
        case "text":
          now = "writing";
          return;
        case "thinking":
          now = "thinking";
          return;
        case "tool":
          seeTool(part);
          return;
        case "step":
          now = WAITING;
          return;
        case "continued":
          now = CONTINUED;
          return;
        case "end":
          running.clear();
          return;
        default:
          return;
      }
    },
    get text(): string {
      const [first, ...others] = running.values();
      if (first === undefined) return now;
      return others.length === 0 ? `running ${first}` : `running ${others.length + 1} tools`;
    },
  };
}
