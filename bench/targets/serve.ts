/**
 * The package's own `serve`, with its line: what `holdfast serve` is without a terminal.
 */
import { join } from "node:path";
import { pino } from "pino";
import { serveCommands } from "../harness/child.ts";
import { type Arguments, type Measured, numberIn, textIn } from "../harness/numbers.ts";
import { serve } from "../../src/node/index.ts";

async function start(given: Arguments): Promise<Measured> {
  const home = textIn(given, "directory");
  const baseURL = `http://127.0.0.1:${numberIn(given, "providerPort")}/v1`;
  const env = { HOLDFAST_HOME_KEY: Buffer.alloc(32, 7).toString("base64url"), XDG_RUNTIME_DIR: home };
  const server = await serve({
    data: join(home, "data"),
    port: numberIn(given, "port"),
    apiKey: textIn(given, "apiKey"),
    line: true,
    providers: { local: { type: "openai-compatible", baseURL } },
    models: { default: "local/bench", offered: ["local/bench"] },
    logger: pino({ level: "silent" }),
    onNotice: () => undefined,
    machine: { env, home, platform: process.platform, now: Date.now },
  });
  return { port: Number(new URL(server.url).port) };
}

serveCommands({ start });
