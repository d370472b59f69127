/**
 * `npm run kill -- --cycles N`: kills real processes as often as you like.
 */
import { parse, whole } from "../simulation/arguments.ts";
import { runKills } from "./run.ts";

const HELP = `npm run kill -- [options]
  --cycles N        how often something is killed (default 200)
  --transport T     http2 (default) or fetch
  --help            this text`;

const values = parse(
  {
    cycles: { type: "string", default: "200" },
    transport: { type: "string", default: "http2" },
    help: { type: "boolean", default: false },
  },
  HELP,
);

if (values.help) {
  process.stdout.write(`${HELP}\n`);
} else {
  const report = await runKills({
    cycles: whole(values.cycles, "cycles", 1, HELP),
    transport: values.transport === "fetch" ? "fetch" : "http2",
    say: (line) => process.stderr.write(`${line}\n`),
  });
  process.stdout.write(`${JSON.stringify(report, undefined, 2)}\nno violation\n`);
}
