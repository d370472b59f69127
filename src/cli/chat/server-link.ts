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
  return new DataDirLink(used, options, () => nonEmpty(env["HOLDFAST_API_KEY"]) ?? keptKey(dataDir));
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
  return new DataDirLink({ url, pid, mayStart: endsWhenIdle }, options, apiKey);
}

class DataDirLink implements ServerLink {
  readonly #options: LinkOptions;
  readonly #apiKey: () => string | undefined;
  readonly #signsOfLife: NodeJS.Timeout;
  #used: UsedServer;
  #looking: Promise<void> | undefined;
  /** What the link has said it waits for; undefined while a server answers. */
  #waitsFor: string | undefined;
  #nextLook: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(used: UsedServer, options: LinkOptions, apiKey: () => string | undefined) {
    this.#used = used;
    this.#options = options;
    this.#apiKey = apiKey;
    // A server in the background stays as long as a chat asks for it. One that does not answer is noticed by the streams.
    this.#signsOfLife = setInterval(
      () => void findServer(options.dataDir).catch(() => undefined),
      SIGN_OF_LIFE_MS,
    );
    this.#signsOfLife.unref();
  }

  get url(): string {
    return this.#used.url;
  }

  get apiKey(): string | undefined {
    return this.#apiKey();
  }

  async about(): Promise<ServerAbout | undefined> {
    const seen = await findServer(this.#options.dataDir);
    return seen.kind === "running" && isSameAddress(seen.about.url, this.url) ? seen.about : undefined;
  }

  lookAfter(): Promise<void> {
    this.#looking ??= this.#look()
      .catch((error: unknown) => this.#wait(messageOf(error), LOOK_MS))
      .finally(() => {
        this.#looking = undefined;
      });
    return this.#looking;
  }

  close(): void {
    this.#isClosed = true;
    clearInterval(this.#signsOfLife);
    clearTimeout(this.#nextLook);
  }

  async #look(): Promise<void> {
    clearTimeout(this.#nextLook);
    const seen = await findServer(this.#options.dataDir);
    if (this.#isClosed) return;
    const next = nextFor(this.#used, seen);
    switch (next.kind) {
      case "stay":
        // The same process answers again: it was suspended, or busy.
        if (this.#waitsFor !== undefined) this.#answers();
        return;
      case "follow":
        return this.#follow(next.about);
      case "start":
        return this.#startAgain();
      case "wait":
        return this.#wait(waitText(this.#used, seen), LOOK_MS);
    }
  }

  #follow(about: ServerAbout): void {
    const { url, pid, endsWhenIdle } = about;
    if (this.#used.pid !== undefined) this.#options.onNews(followText(this.#used, about));
    // A named address is kept as it was named while it is the same.
    const where = isSameAddress(this.#used.url, url) ? this.#used.url : url;
    const mayStart = this.#options.url === undefined && endsWhenIdle;
    this.#used = { url: where, pid, mayStart };
    this.#answers();
  }

  async #startAgain(): Promise<void> {
    const onStart = (seen: ServerSeen): void =>
      this.#options.onNews(`${lossText(this.#used, seen)}; starting one in the background`);
    try {
      const about = await ensureServer({ ...this.#options, onStart });
      if (!this.#isClosed) this.#follow(about);
    } catch (error) {
      this.#wait(messageOf(error), START_AGAIN_MS);
    }
  }

  #answers(): void {
    this.#waitsFor = undefined;
    this.#options.onBack();
  }

  /** Looks again after a while. Says what it waits for, once. */
  #wait(what: string, afterMs: number): void {
    if (this.#isClosed) return;
    if (this.#waitsFor !== what) this.#options.onNews(what);
    this.#waitsFor = what;
    clearTimeout(this.#nextLook);
    this.#nextLook = setTimeout(() => void this.lookAfter(), afterMs);
    this.#nextLook.unref();
  }
}

/** Read anew each time: a server that was started again may have made another one. */
function keptKey(dataDir: string): string | undefined {
  return readFileIfThere(join(dataDir, API_KEY_FILE))?.trim();
}

function nonEmpty(value: string | undefined): string | undefined {
  return value === "" ? undefined : value;
}
