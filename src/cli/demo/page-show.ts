/**
 * `holdfast demo --page`: the page with a drawer of blows, a server that is started again whenever it is killed, and a provider whose answers can be broken.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { rehearsalModel } from "../../agent/models/index.ts";
import type { Surroundings } from "../terminal.ts";
import { terminal } from "../terminal.ts";
import { type Actor, startServer } from "./actors.ts";
import { openFront } from "./front.ts";
import { openProvider } from "./provider.ts";
import type { Stage } from "./stage.ts";

const SILENCE_MS = 10_000;
/** The page knows by it that the model answers by script. */
const PROVIDER = "rehearsal-provider";

/** Runs until the signal fires, or the server cannot be started. */
export async function showPage(stage: Stage, surroundings: Surroundings, signal: AbortSignal): Promise<void> {
  const { print, bold, dim } = terminal(surroundings);
  const over = Promise.withResolvers<void>();
  signal.addEventListener("abort", () => over.resolve(), { once: true });
  const provider = await openProvider(rehearsalModel());
  const flags = ["--config", configFor(stage, provider.url)];
  let server: Actor | undefined;
  let targetPort = 0;
  const begin = async (): Promise<string> => {
    const { dataDir, directory: cwd, env } = stage;
    const started = await startServer({ dataDir, cwd, env, flags, onFailure: over.reject });
    server = started.actor;
    targetPort = started.port;
    return started.signInLink;
  };
  const say = (text: string): void => print(dim(text));
  const front = await openFront({
    targetPort: () => targetPort,
    acts: {
      cut: async () => {
        say("The page asked for it: every connection is cut.");
        front.cut();
      },
      silence: async () => {
        say("The page asked for it: nothing arrives for ten seconds.");
        await front.silence(SILENCE_MS);
      },
      kill: async () => {
        say(`The page asked for it: SIGKILL to process ${server?.pid ?? 0}.`);
        await server?.kill();
        await begin().catch(over.reject);
        say(`Process ${server?.pid ?? 0} starts on the same disk.`);
      },
      break: async () => {
        say("The page asked for it: the provider breaks off its answer.");
        provider.breakOff();
      },
    },
  });
  try {
    const link = await begin();
    print("Holdfast: a page to break things in. Open it, ask for something slow, and open Stream.");
    print(`  ${bold(front.url + link)}`);
    say("Ctrl-C ends it, and removes all that was said.");
    await over.promise;
  } finally {
    await server?.kill();
    await front.close();
    await provider.close();
  }
}

function configFor({ directory }: Stage, baseURL: string): string {
  const path = join(directory, "page.config.json");
  writeFileSync(path, JSON.stringify({ providers: { [PROVIDER]: { type: "openai-compatible", baseURL } } }));
  return path;
}
