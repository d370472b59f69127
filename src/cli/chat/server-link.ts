/**
 * Which server the chat talks to: the one that was named, or the data directory's own.
 *
 * The data directory's server is looked after while the chat is open: it is told that somebody needs it, and when it
 * has died it is started again, on the port where our streams look for it.
 */
import { join } from "node:path";
import { askServer } from "../control-client.ts";
import type { ServerAbout } from "../control-server.ts";
import { API_KEY_FILE, readFileIfThere } from "../data-dir.ts";
import { failure } from "../failures.ts";
import { ensureServer, type LocalServerOptions } from "../local-server.ts";
import { isLoopback } from "../settings.ts";

export interface ServerLink {
  readonly url: string;
  readonly apiKey: string | undefined;
  /** Undefined when the server is not on this machine: there is no way to ask. */
  models(): Promise<ServerAbout["models"] | undefined>;
  /** Starts the data directory's server again when it is gone, and tells whether it had to; does nothing for one that was named. */
  revive(): Promise<boolean>;
  close(): void;
}

export interface LinkOptions extends LocalServerOptions {
  readonly url: string | undefined;
  readonly onMoved: (url: string) => void;
  /** The command that makes an API key, to paste. */
  readonly keysCreate: string;
}

const SIGN_OF_LIFE_MS = 20_000;

export async function linkServer(options: LinkOptions): Promise<ServerLink> {
  return options.url === undefined ? localLink(options) : namedLink(options.url, options);
}

function namedLink(url: string, { dataDir, env }: LinkOptions): ServerLink {
  const isHere = URL.canParse(url) && isLoopback(new URL(url).hostname);
  const kept = isHere ? readFileIfThere(join(dataDir, API_KEY_FILE))?.trim() : undefined;
  return {
    url,
    apiKey: nonEmpty(env["HOLDFAST_API_KEY"]) ?? kept,
    models: async () => {
      const about = isHere ? await askServer(dataDir) : undefined;
      return about?.url === url ? about.models : undefined;
    },
    revive: async () => false,
    close: () => undefined,
  };
}

async function localLink(options: LinkOptions): Promise<ServerLink> {
  const { dataDir, env } = options;
  const first = await ensureServer(options);
  const apiKey = first.apiKey ?? nonEmpty(env["HOLDFAST_API_KEY"]);
  if (apiKey === undefined) {
    throw failure(
      `the server at ${first.url} has API keys, and none of them is here: make one with \`${options.keysCreate}\` and set HOLDFAST_API_KEY`,
    );
  }
  const timer = setInterval(() => void askServer(dataDir).catch(() => undefined), SIGN_OF_LIFE_MS);
  timer.unref();
  let reviving: Promise<boolean> | undefined;
  const revive = async (): Promise<boolean> => {
    let hasStarted = false;
    const onStart = (): void => {
      hasStarted = true;
      options.onStart();
    };
    const { url } = await ensureServer({ ...options, onStart });
    if (url !== first.url) options.onMoved(url);
    return hasStarted;
  };
  return {
    url: first.url,
    apiKey,
    models: async () => (await askServer(dataDir))?.models ?? first.models,
    revive: () => {
      reviving ??= revive().finally(() => {
        reviving = undefined;
      });
      return reviving;
    },
    close: () => clearInterval(timer),
  };
}

function nonEmpty(value: string | undefined): string | undefined {
  return value === "" ? undefined : value;
}
