/**
 * The log of `holdfast serve`: JSON lines, and short lines in colour for a person at a terminal.
 */
import { type Logger, pino } from "pino";
import type { Saved } from "../node/saved.ts";
import { serverLog } from "../node/server-log.ts";
import { fieldsOf, parsedJson } from "../protocol/fields.ts";
import { styleOf } from "./chat/style.ts";
import type { LogLevel } from "./config-file.ts";
import { type Surroundings, visible } from "./terminal.ts";

const TEXTS: Readonly<Record<Saved, string>> = {
  // Its step may begin anew behind a restart: the answer is the same one all the same.
  attached: "attached to a running answer: no second one began",
  replayed: "replayed a finished answer: no new model call",
  resumed: "sent the rest of an answer: no second one began",
  held: "continued an answer that the end of its server had cut off: no new model call",
  continued: "continued after the provider broke off",
};

/** Pino's number of the level. */
const ERROR = 50;

/** One line for each model call that the server saved, on the default level too. A log of errors alone has none. */
export function savedLines(logger: Logger): (how: Saved) => void {
  if (!logger.isLevelEnabled("warn")) return () => undefined;
  const lines = logger.child({}, { level: "info" });
  return (how) => lines.info({ saved: how }, TEXTS[how]);
}

export function commandLog(level: LogLevel, surroundings: Pick<Surroundings, "stderr" | "env">): Logger {
  const { stderr, env } = surroundings;
  if (stderr.isTTY !== true) return serverLog(level);
  const style = styleOf(stderr, env);
  const write = (line: string): void => {
    const { time, level: of, msg, saved, err, ...more } = fieldsOf(parsedJson(line));
    const plain = Number(of) < ERROR ? style.yellow : style.red;
    const paint = saved === undefined ? plain : style.green;
    const clock = new Date(Number(time)).toTimeString().slice(0, 8);
    const fields = Object.entries(more).map(([name, value]) => ` ${name}=${visible(said(value))}`);
    const stack = err === undefined ? [] : said(fieldsOf(err)["stack"]).split("\n").map(visible);
    const first = `  ${style.dim(clock)} ${paint(visible(said(msg)))}${style.dim(fields.join(""))}`;
    stderr.write(`${[first, ...stack].join("\n")}\n`);
  };
  return pino({ level, base: null }, { write });
}

function said(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}
