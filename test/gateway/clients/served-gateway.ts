/**
 * `holdfast serve` as its users run it, a process with its database, in front of a scripted provider or the rehearsal model.
 */
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { Cli, type Running } from "../../cli/cli-process.ts";
import { MODEL, promptsOf, type ScriptedProvider } from "../scripted-provider.ts";

export const LOCAL = `local/${MODEL}`;
export const REHEARSAL = "rehearsal/rehearsal";

export type ProviderFormat = "openai-compatible" | "anthropic";

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

export async function serveGateway(
  t: TestContext,
  { provider, format = "openai-compatible", env = {} }: Served = {},
): Promise<ServedGateway> {
  const cli = new Cli(t);
  const workspace = join(cli.home, "workspace");
  mkdirSync(workspace);
  if (provider !== undefined) {
    const local = { type: format, baseURL: provider.baseURL, apiKeyEnv: "LOCAL_KEY" };
    const config = { providers: { local }, models: { offered: [LOCAL] } };
    writeFileSync(join(cli.home, "holdfast.config.json"), JSON.stringify(config));
  }
  const running = await cli.serve([], { LOCAL_KEY: "of-the-provider", ...env });
  const metrics = async (): Promise<string> => (await fetch(`${running.url}/metrics`)).text();
  t.after(() => assert.doesNotMatch(running.stderr(), /mistake|failed assertion/, "the server has a bug"));
  return {
    baseURL: `${running.url}/v1`,
    apiKey: running.apiKey,
    running,
    workspace,
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
export function assertEachExtendsTheOneBefore(provider: ScriptedProvider): void {
  const prompts = promptsOf(provider);
  for (const [at, prompt] of prompts.entries()) {
    const before = prompts[at - 1];
    if (before !== undefined) assert.ok(prompt.startsWith(before.slice(0, -1)), `request ${at} is no longer the same`);
  }
  for (const { body } of provider.calls) assert.deepEqual(body["tools"], provider.calls[0]?.body["tools"]);
}
