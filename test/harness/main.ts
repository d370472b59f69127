/**
 * `npm run harness -- --url URL --api-key KEY`: plays tool-call flows against a running gateway, and prints what it reused, began anew and replayed, and what
 * reached the provider.
 *
 * Exit code 0: every flow was as it has to be. 1: one was not. 2: it could not be played.
 */
import { spawn } from "node:child_process";
import { parse, refuse, whole } from "../../scripts/arguments.ts";
import type { Cleanup } from "../cleanup.ts";
import { FLOWS } from "./flows.ts";
import { CannotPlay, Gateway, type GatewayOptions, WAYS } from "./gateway.ts";
import { ownGateway } from "./own.ts";
import { type Played, playAll, WORDS } from "./play.ts";

const HELP = `npm run harness -- [options]
  --url URL           the gateway, with or without /v1 (default http://127.0.0.1:4600)
  --api-key KEY       its API key (default HOLDFAST_API_KEY)
  --model NAME        a model that follows the rehearsal script (default rehearsal/rehearsal)
  --own               starts a server of its own, before a provider that counts; instead of --url
  --flow NAME         only the flow of this name
  --kill-pid PID      the server's process, which something else starts again: for the flow "kill"
  --kill-command CMD  kills the server and starts it again: for the flow "kill"
  --json              the report as JSON
  --help              this text

Flows: ${FLOWS.map(({ name }) => name).join(", ")}.
Exit codes: 0 every flow is as it has to be, 1 one is not, 2 it could not be played.`;

const values = parse(
  {
    url: { type: "string" },
    "api-key": { type: "string" },
    model: { type: "string" },
    own: { type: "boolean", default: false },
    flow: { type: "string" },
    "kill-pid": { type: "string" },
    "kill-command": { type: "string" },
    json: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
  HELP,
);

if (values.help) process.stdout.write(`${HELP}\n`);
else await main();

async function main(): Promise<void> {
  const flows = FLOWS.filter(({ name }) => values.flow === undefined || name === values.flow);
  if (flows.length === 0) refuse(`there is no flow "${values.flow ?? ""}"`, HELP);
  const ends: (() => void | Promise<void>)[] = [];
  try {
    const gateway = new Gateway(
      values.own ? await own({ after: (act) => void ends.unshift(act) }) : running(),
    );
    await gateway.check();
    const all = await playAll(gateway, flows, (played) => {
      if (!values.json) process.stdout.write(`${linesOf(played).join("\n")}\n`);
    });
    if (values.json) process.stdout.write(`${JSON.stringify(all, undefined, 2)}\n`);
    if (all.some(({ outcome }) => outcome === "failed")) process.exitCode = 1;
  } catch (error) {
    if (!(error instanceof CannotPlay)) throw error;
    process.stderr.write(`harness: ${error.message}\n`);
    process.exitCode = 2;
  } finally {
    for (const end of ends) await end();
  }
}

function own(cleanup: Cleanup): Promise<GatewayOptions> {
  for (const name of ["url", "api-key", "model", "kill-pid", "kill-command"] as const) {
    if (values[name] !== undefined) refuse(`--own and --${name} exclude each other`, HELP);
  }
  return ownGateway(cleanup);
}

function running(): GatewayOptions {
  const { url = "http://127.0.0.1:4600", model = "rehearsal/rehearsal" } = values;
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? "")) refuse(`--url is no URL of HTTP: "${url}"`, HELP);
  const apiKey = values["api-key"] ?? process.env["HOLDFAST_API_KEY"] ?? "";
  if (apiKey === "") refuse("the API key is missing: give --api-key, or set HOLDFAST_API_KEY", HELP);
  return { url, apiKey, model, kill: killer(), providerCalls: undefined };
}

function killer(): (() => Promise<void>) | undefined {
  const { "kill-pid": pid, "kill-command": command } = values;
  if (pid !== undefined && command !== undefined) {
    refuse("--kill-pid and --kill-command exclude each other", HELP);
  }
  if (pid !== undefined) {
    const process_ = whole(pid, "kill-pid", 2, HELP);
    return async () => void process.kill(process_, "SIGKILL");
  }
  if (command === undefined) return undefined;
  return async () => {
    const shell = spawn(command, { shell: true, stdio: ["ignore", "ignore", "inherit"] });
    const code = await new Promise<number | null>((resolve) => shell.once("exit", resolve));
    if (code !== 0) throw new CannotPlay(`--kill-command ended with exit code ${String(code)}`);
  };
}

function linesOf({ flow, outcome, counts, providerCalls, problems }: Played): readonly string[] {
  const ways = WAYS.filter((way) => (counts?.[way] ?? 0) > 0).map(
    (way) => `${WORDS[way]} ${counts?.[way] ?? 0}`,
  );
  const counted = counts === undefined ? ["/metrics is not shown"] : ways;
  const calls = providerCalls === undefined ? [] : [`provider calls ${providerCalls}`];
  const told = outcome === "skipped" ? problems : [...counted, ...calls];
  const why = outcome === "failed" ? problems.map((problem) => `    ${problem}`) : [];
  return [`${outcome.padEnd(8)}${flow.padEnd(22)}${told.join(", ")}`, ...why];
}
