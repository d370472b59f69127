/**
 * `holdfast serve` as its users run it, a process with its database, in front of a scripted provider or the rehearsal model.
 */
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import type { Asked } from "../../agent/models/providers/server.ts";
import { Cli, type Running } from "../../cli/cli-process.ts";
import { MODEL } from "../../agent/models/providers/formats.ts";
import { promptOf, type ScriptedProvider } from "../../agent/models/providers/scripted.ts";

export const LOCAL = `local/${MODEL}`;
export const REHEARSAL = "rehearsal/rehearsal";

/** Some clients take their time on a busy machine, and the server is there as long as they are. */
export const PATIENCE_MS = 280_000;

/** A line of the log that no client can bring about. */
const BUG = /^\{"level":[56]0.*$/gm;

/** Answers that are being told. */
export const OPEN_ANSWERS = String.raw`holdfast_http_requests_open\{kind="gateway"\}`;

export type ProviderFormat = "openai-compatible" | "anthropic" | "openai";

export interface ServedGateway {
  readonly baseURL: string;
  readonly apiKey: string;
  readonly running: Running;
  /** A directory of the test's own, for what tools do. */
  readonly workspace: string;
  /** Answers by how they came about: `continued_turn`, `fresh new` ... */
  answers(): Promise<Readonly<Record<string, number>>>;
  metric(name: string): Promise<number>;
}

export interface Served {
  readonly provider?: ScriptedProvider;
  readonly format?: ProviderFormat;
  readonly env?: Readonly<Record<string, string>>;
}

export async function serveGateway(t: TestContext, served: Served = {}): Promise<ServedGateway> {
  const cli = new Cli(t, { patienceMs: PATIENCE_MS });
  const workspace = prepareHome(cli, served);
  const running = await serveIn(t, cli, served);
  const { url, apiKey } = running;
  return { baseURL: `${url}/v1`, apiKey, running, workspace, ...countedBy(() => url) };
}

/** Returns the workspace. */
export function prepareHome({ home }: Cli, { provider, format = "openai-compatible" }: Served): string {
  const workspace = join(home, "workspace");
  mkdirSync(workspace);
  if (provider !== undefined) {
    // It begins each answer anew. Without the line a first try would find that out after each kill, by one request more.
    const local = { type: format, baseURL: provider.baseURL, apiKeyEnv: "LOCAL_KEY", prefill: "off" };
    const config = { providers: { local }, models: { offered: [LOCAL] } };
    writeFileSync(join(home, "holdfast.config.json"), JSON.stringify(config));
  }
  return workspace;
}

/** What it says of itself is looked at when the test is over. */
export async function serveIn(t: TestContext, cli: Cli, { env = {} }: Served): Promise<Running> {
  const running = await cli.serve([], { LOCAL_KEY: "of-the-provider", ...env });
  t.after(() => {
    const bugs = running.stderr().match(BUG) ?? [];
    for (const bug of bugs) t.diagnostic(bug);
    assert.equal(bugs.length, 0, "the server's log tells of a bug");
  });
  return running;
}

/** What the server at this place counts. */
export function countedBy(url: () => string): Pick<ServedGateway, "answers" | "metric"> {
  const metrics = async (): Promise<string> => (await fetch(`${url()}/metrics`)).text();
  return {
    answers: async () => answersIn(await metrics()),
    metric: async (name) => Number(new RegExp(`^${name} (\\S+)$`, "m").exec(await metrics())?.[1]),
  };
}

function answersIn(metrics: string): Readonly<Record<string, number>> {
  const line = /^holdfast_gateway_requests_total\{how="(\w+)"(?:,reason="(\w+)")?\} (\d+)$/gm;
  const found: Record<string, number> = {};
  for (const [, how = "", reason, count] of metrics.matchAll(line)) {
    if (count !== "0") found[reason === undefined ? how : `${how} ${reason}`] = Number(count);
  }
  return found;
}

/** The provider's cache stays warm: each request begins with all of the one before, byte by byte. */
export function assertEachExtendsTheOneBefore(calls: readonly Asked[]): void {
  const prompts = calls.map(promptOf);
  for (const [at, prompt] of prompts.slice(1).entries()) {
    const isSame = prompt.startsWith(prompts[at]?.slice(0, -1) ?? "?");
    assert.ok(isSame, `request ${at + 1} does not begin with request ${at}`);
  }
  for (const { body } of calls) assert.deepEqual(body["tools"], calls[0]?.body["tools"]);
}
