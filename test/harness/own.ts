/**
 * A gateway of the harness's own: `holdfast serve` as a process on a database of its own, in front of a provider that follows the flows' scripts and counts
 * what reaches it. It can be killed, and starts again where it was.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Cleanup } from "../cleanup.ts";
import { Cli } from "../cli/cli-process.ts";
import { MODEL } from "../agent/models/providers/formats.ts";
import { openaiProvider } from "../agent/models/providers/scripted.ts";
import type { GatewayOptions } from "./gateway.ts";
import { followScript } from "./script.ts";

const PATIENCE_MS = 600_000;

export async function ownGateway(cleanup: Cleanup): Promise<GatewayOptions> {
  const provider = await openaiProvider(cleanup, followScript);
  const cli = new Cli(cleanup, { patienceMs: PATIENCE_MS });
  const local = { type: "openai-compatible", baseURL: provider.baseURL, apiKeyEnv: "LOCAL_KEY" };
  const config = { providers: { local }, models: { offered: [`local/${MODEL}`] } };
  writeFileSync(join(cli.home, "holdfast.config.json"), JSON.stringify(config));
  const env = { LOCAL_KEY: "of-the-provider" };
  let running = await cli.serve([], env);
  const { url, apiKey } = running;
  return {
    url,
    apiKey,
    model: `local/${MODEL}`,
    providerCalls: () => provider.calls.length,
    kill: async () => {
      running.signal("SIGKILL");
      await running.exit;
      running = await cli.serve(["--port", new URL(url).port], env);
    },
  };
}
