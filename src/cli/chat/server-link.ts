/**
 * Which server the chat talks to: the one that was named, or the data directory's own; and where it is now.
 *
 * While the chat is open the link follows the data directory's server: to another process, to another port. A server that a chat
 * has started is started again when it is gone; for every other the link waits (`server-watch.ts` decides).
 */
import { messageOf } from "../../protocol/errors.ts";
import { join } from "node:path";
import { findServer, type ServerSeen } from "../control-client.ts";
import type { ServerAbout } from "../control-messages.ts";
import { API_KEY_FILE, readFileIfThere } from "../../node/data-dir.ts";
import { failure } from "../../node/failures.ts";
import { ensureServer, type LocalServerOptions } from "../local-server.ts";
import {
  followText,
  isSameAddress,
  lossText,
  nextFor,
  startText,
  type UsedServer,
  waitText,
} from "./server-watch.ts";
import { isLoopback } from "../../node/loopback.ts";

export interface ServerLink {
  /** Where the server is, as far as is known: it may move. */
  readonly url: string;
  readonly apiKey: string | undefined;
  /** Undefined when the server cannot be asked: it is not on this machine, or does not answer. */
  about(): Promise<ServerAbout | undefined>;
  /** Call it when the server may be gone. Resolves when it is there, or when the link has said that it waits; never rejects. */
  lookAfter(): Promise<void>;
  close(): void;
}

interface LinkOptions extends Omit<LocalServerOptions, "onStart"> {
  readonly url: string | undefined;
  /** The command that makes an API key, to paste. */
  readonly keysCreate: string;
  /** What has become of the server, and what the chat does about it. */
  readonly onNews: (line: string) => void;
  /** A server answers where none did: streams that wait to dial again should do it now. */
  readonly onBack: () => void;
}

const SIGN_OF_LIFE_MS = 20_000;
/** Soon enough for a person who has just started a server. */
const LOOK_MS = 500;
/** A start that failed costs a process: it is tried again less often. */
const START_AGAIN_MS = 10_000;

export async function linkServer(options: LinkOptions): Promise<ServerLink> {
  return options.url === undefined ? localLink(options) : namedLink(options.url, options);
}

async function namedLink(url: string, options: LinkOptions): Promise<ServerLink> {
  const { dataDir, env } = options;
  const isHere = URL.canParse(url) && isLoopback(new URL(url).hostname);
  if (!isHere) {
    return {
      url,
      apiKey: nonEmpty(env["HOLDFAST_API_KEY"]),
      about: async () => undefined,
      lookAfter: async () => undefined,
      close: () => undefined,
    };
  }
  const seen = await findServer(dataDir);
  const isOurs = seen.kind === "running" && isSameAddress(url, seen.about.url);
  const used = { url, pid: isOurs ? seen.about.pid : undefined, mayStart: false };
  return dataDirLink(used, options, () => nonEmpty(env["HOLDFAST_API_KEY"]) ?? keptKey(dataDir));
}

async function localLink(options: LinkOptions): Promise<ServerLink> {
  const { dataDir, env } = options;
  const onStart = (seen: ServerSeen): void => options.onNews(startText(seen));
  const { url, pid, endsWhenIdle } = await ensureServer({ ...options, onStart });
  const apiKey = (): string | undefined => keptKey(dataDir) ?? nonEmpty(env["HOLDFAST_API_KEY"]);
  if (apiKey() === undefined) {
    throw failure(
      `the server at ${url} has API keys, and none of them is here: make one with \`${options.keysCreate}\` and set HOLDFAST_API_KEY`,
    );
  }
  return dataDirLink({ url, pid, mayStart: endsWhenIdle }, options, apiKey);
}

function dataDirLink(first: UsedServer, options: LinkOptions, apiKey: () => string | undefined): ServerLink {
  let used = first;
  let looking: Promise<void> | undefined;
  /** What the link has said it waits for; undefined while a server answers. */
  let waitsFor: string | undefined;
  let nextLook: NodeJS.Timeout | undefined;
  let isClosed = false;
  // A server in the background stays as long as a chat asks for it. One that does not answer is noticed by the streams.
  const signsOfLife = setInterval(
    () => void findServer(options.dataDir).catch(() => undefined),
    SIGN_OF_LIFE_MS,
  ).unref();

  function lookAfter(): Promise<void> {
    looking ??= look()
      .catch((error: unknown) => wait(messageOf(error), LOOK_MS))
      .finally(() => {
        looking = undefined;
      });
    return looking;
  }

  async function look(): Promise<void> {
    clearTimeout(nextLook);
    const seen = await findServer(options.dataDir);
    if (isClosed) return;
    const next = nextFor(used, seen);
    switch (next.kind) {
      case "stay":
        // The same process answers again: it was suspended, or busy.
        if (waitsFor !== undefined) answers();
        return;
      case "follow":
        return follow(next.about);
      case "start":
        return startAgain();
      case "wait":
        return wait(waitText(used, seen), LOOK_MS);
    }
  }

  function follow(about: ServerAbout): void {
    const { url, pid, endsWhenIdle } = about;
    if (used.pid !== undefined) options.onNews(followText(used, about));
    // A named address is kept as it was named while it is the same.
    const where = isSameAddress(used.url, url) ? used.url : url;
    const mayStart = options.url === undefined && endsWhenIdle;
    used = { url: where, pid, mayStart };
    answers();
  }

  async function startAgain(): Promise<void> {
    const onStart = (seen: ServerSeen): void =>
      options.onNews(`${lossText(used, seen)}; starting one in the background`);
    try {
      const about = await ensureServer({ ...options, onStart });
      if (!isClosed) follow(about);
    } catch (error) {
      wait(messageOf(error), START_AGAIN_MS);
    }
  }

  function answers(): void {
    waitsFor = undefined;
    options.onBack();
  }

  /** Looks again after a while. Says what it waits for, once. */
  function wait(what: string, afterMs: number): void {
    if (isClosed) return;
    if (waitsFor !== what) options.onNews(what);
    waitsFor = what;
    clearTimeout(nextLook);
    nextLook = setTimeout(() => void lookAfter(), afterMs).unref();
  }

  return {
    get url() {
      return used.url;
    },
    get apiKey() {
      return apiKey();
    },
    async about() {
      const seen = await findServer(options.dataDir);
      return seen.kind === "running" && isSameAddress(seen.about.url, used.url) ? seen.about : undefined;
    },
    lookAfter,
    close() {
      isClosed = true;
      clearInterval(signsOfLife);
      clearTimeout(nextLook);
    },
  };
}

/** Read anew each time: a server that was started again may have made another one. */
function keptKey(dataDir: string): string | undefined {
  return readFileIfThere(join(dataDir, API_KEY_FILE))?.trim();
}

function nonEmpty(value: string | undefined): string | undefined {
  return value === "" ? undefined : value;
}
