/**
 * `npm run kill -- --cycles N`: kills real processes as often as you like.
 */
import { parse, refuse, whole } from "../../scripts/arguments.ts";
import { runAgentKills } from "./agent-run.ts";
import { runLineKills } from "./line-run.ts";
import { runKills } from "./run.ts";
import { runSdkKills } from "./sdk-run.ts";

const HELP = `npm run kill -- [options]
  --cycles N        how often something is killed (default 200)
  --transport T     http2 (default) or fetch
  --agent           a conversation with the agent and its tools, over \`holdfast serve\`
  --line            answers of \`holdfast serve\` with its line: server, line or both killed at every stage (480 cases in all)
  --only TEXT       of these only those whose name has this in it, such as "chat, resume" or "killed at finish"
  --part K/N        of these only the K-th of N parts
  --at-once N       so many cases of the line beside each other (default 1)
  --sdk             stock SDKs with \`holdfast/fetch\` and a provider that never says the same twice: one request for each answer
  --help            this text`;

const values = parse(
  {
    cycles: { type: "string", default: "200" },
    transport: { type: "string", default: "http2" },
    agent: { type: "boolean", default: false },
    line: { type: "boolean", default: false },
    sdk: { type: "boolean", default: false },
    only: { type: "string", default: "" },
    part: { type: "string", default: "1/1" },
    "at-once": { type: "string", default: "1" },
    help: { type: "boolean", default: false },
  },
  HELP,
);

if (values.help) {
  process.stdout.write(`${HELP}\n`);
} else {
  const cycles = whole(values.cycles, "cycles", 1, HELP);
  const say = (line: string): void => void process.stderr.write(`${line}\n`);
  const atOnce = whole(values["at-once"], "at-once", 1, HELP);
  const report = values.line
    ? await runLineKills({ cycles, only: values.only, part: partOf(values.part), atOnce, say })
    : values.sdk
      ? await runSdkKills({ cycles, say })
      : values.agent
        ? await runAgentKills({ cycles, say })
        : await runKills({ cycles, transport: transportOf(values.transport), say });
  process.stdout.write(`${JSON.stringify(report, undefined, 2)}\n`);
  if ("violations" in report && report.violations.length > 0) process.exit(1);
  process.stdout.write("no violation\n");
}

function transportOf(name: string): "http2" | "fetch" {
  if (name === "http2" || name === "fetch") return name;
  return refuse(`--transport is http2 or fetch, not "${name}"`, HELP);
}

function partOf(text: string): readonly [k: number, n: number] {
  const [, k = 0, n = 0] = (/^([1-9]\d*)\/([1-9]\d*)$/.exec(text) ?? []).map(Number);
  if (k >= 1 && k <= n) return [k, n];
  return refuse(`--part is K/N with K from 1 to N, not "${text}"`, HELP);
}
