/**
 * The two processes of the show, as a user would start them: `holdfast serve`, and a client.
 *
 * An actor dies when the show kills it. One that ends by itself has failed, and the show with it: what it said last
 * is the reason.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { failure } from "../../node/failures.ts";
import { type News, readNews } from "./news.ts";

export interface ActorOptions {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** It ended, and the show had not asked it to. */
  readonly onFailure: (reason: Error) => void;
}

const LAST_WORDS_CHARS = 2_000;

/** Source runs as it is; what was built for publishing has other endings. */
const EXTENSION = import.meta.filename.endsWith(".ts") ? "ts" : "js";

export type Actor = ReturnType<typeof newActor>;

function newActor(child: ChildProcess, name: string, onFailure: ActorOptions["onFailure"]) {
  let isDismissed = false;
  let lastWords = "";
  const pid = child.pid ?? 0;
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    lastWords = (lastWords + text).slice(-LAST_WORDS_CHARS);
  });
  // Its pipes may break with it.
  child.stdin?.on("error", () => undefined);
  child.once("error", (cause) =>
    onFailure(failure(`the ${name} could not be started: ${cause.message}`, cause)),
  );
  /** It is gone, and all that it said has been read. */
  const ended = new Promise<void>((resolve) => {
    child.once("close", (code, signal) => {
      resolve();
      if (!isDismissed) onFailure(failure(`the ${name} ended by itself (${signal ?? code}):\n${lastWords}`));
    });
  });

  return {
    pid,
    ended,
    /** The end of what it wrote to its standard error. */
    get lastWords(): string {
      return lastWords;
    },
    /** SIGKILL: it can do nothing about it and does not know. */
    async kill(): Promise<void> {
      isDismissed = true;
      child.kill("SIGKILL");
      await ended;
    },
    /** Asks it to end in good order. */
    async dismiss(): Promise<void> {
      isDismissed = true;
      child.stdin?.end();
      child.kill("SIGTERM");
      await ended;
    },
  };
}

interface ServerActor {
  readonly actor: Actor;
  readonly port: number;
  /** What stands behind the address of its page. */
  readonly signInLink: string;
}

export interface ServerOptions extends ActorOptions {
  readonly dataDir: string;
  /** What it is called when it fails. Default: server. */
  readonly name?: string;
  /** More flags of `holdfast serve`. */
  readonly flags?: readonly string[];
}

/** Resolves when it listens. */
export async function startServer(options: ServerOptions): Promise<ServerActor> {
  const main = join(import.meta.dirname, `../main.${EXTENSION}`);
  const { dataDir, name = "server", flags = [], cwd, env, onFailure } = options;
  const given = ["--port", "0", "--data-dir", dataDir, ...flags];
  const child = spawn(process.execPath, [main, "serve", ...given], {
    cwd,
    env: { ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const actor = newActor(child, name, onFailure);
  let said = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (said += text));
  for (;;) {
    const port = /listening on \S+:(\d+)\b[\s\S]*\n {2}docs /.exec(said)?.[1];
    const signInLink = /^ {2}page +[^#\s]+(#\S+)$/m.exec(said)?.[1] ?? "";
    if (port !== undefined) return { actor, port: Number(port), signInLink };
    const isOver = await Promise.race([
      once(child.stdout, "data").then(() => false),
      actor.ended.then(() => true),
    ]);
    if (isOver) {
      throw failure(`the ${name} did not start (${child.signalCode ?? child.exitCode}):\n${actor.lastWords}`);
    }
  }
}

export interface ClientOptions extends ActorOptions {
  readonly url: string;
  readonly workspace: string;
  readonly prompt: string;
  readonly onNews: (news: News) => void;
}

export function startClient({ url, workspace, prompt, onNews, ...options }: ClientOptions): Actor {
  const { cwd, env, onFailure } = options;
  const program = join(import.meta.dirname, `client.${EXTENSION}`);
  const child = spawn(process.execPath, [program, url, workspace, prompt], {
    cwd,
    env: { ...env },
    stdio: ["pipe", "pipe", "pipe"],
  });
  // A line that a kill cut off is none: the rest of it never comes.
  let rest = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) onNews(readNews(line));
  });
  return newActor(child, "client", onFailure);
}
