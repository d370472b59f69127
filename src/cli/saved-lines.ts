/**
 * One short line for each model call that the server saved: in colour for a person at a terminal, as JSON in the log elsewhere.
 */
import type { Logger } from "pino";
import type { Saved } from "../node/saved.ts";
import { styleOf } from "./chat/style.ts";
import type { Surroundings } from "./terminal.ts";

const TEXTS: Readonly<Record<Saved, string>> = {
  attached: "attached to a running answer: no new model call",
  replayed: "replayed a finished answer: no new model call",
  resumed: "sent the rest of an answer: no new model call",
  held: "continued a model call that outlived its server: no new model call",
  continued: "continued after the provider broke off",
};

/** Warnings alone are logged by default, and these lines with them; who asks for errors alone gets no others. */
export function savedLines(
  logger: Logger,
  { stderr, env, now }: Pick<Surroundings, "stderr" | "env" | "now">,
): (how: Saved) => void {
  if (!logger.isLevelEnabled("warn")) return () => undefined;
  const { dim, green } = styleOf(stderr, env);
  const lines = logger.child({}, { level: "info" });
  return (how) => {
    if (stderr.isTTY !== true) return lines.info({ saved: how }, TEXTS[how]);
    const time = new Date(now()).toTimeString().slice(0, 8);
    stderr.write(`  ${dim(time)} ${green(TEXTS[how])}\n`);
  };
}
