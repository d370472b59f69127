/**
 * The command line as its users run it: real processes, each test with a home of its own.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Cleanup } from "../cleanup.ts";
import { COMMAND } from "../command.ts";
import { inherited } from "../inherited.ts";
import { keptPort } from "../kept-port.ts";

/** Far more than a command takes; a hanging one must not hang the test run. */
const PATIENCE_MS = 60_000;

/** On a busy machine opening the smallest database may take long enough for a word about it. */
const PROGRESS = /^Reading the database \.\.\..*\n/gm;

/** What a server says once about a new home. */
const NOTICES =
  /^\{"level":40,.*"msg":"(?:A new home key is in|other users could read the data directory) .*\n/gm;

export interface Finished {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Running {
  readonly pid: number;
  readonly url: string;
  readonly apiKey: string;
  readonly stdout: () => string;
  readonly stderr: () => string;
  signal(signal: NodeJS.Signals): void;
  /** From now on nobody reads what it says about itself. */
  closeStderr(): void;
  readonly exit: Promise<Finished>;
}

export class Cli {
  readonly home: string;
  readonly dataDir: string;
  readonly #children = new Set<ChildProcess>();
  readonly #patienceMs: number;
  readonly #hasLine: boolean;
  readonly #under: readonly string[];

  /** With a line, servers hold their model calls beside themselves and drain, as they do for users. */
  constructor(
    t: Cleanup,
    {
      patienceMs = PATIENCE_MS,
      hasLine = false,
      under = [],
    }: {
      readonly patienceMs?: number;
      readonly hasLine?: boolean;
      /** A command that runs the one behind it. */
      readonly under?: readonly string[];
    } = {},
  ) {
    this.#patienceMs = patienceMs;
    this.#hasLine = hasLine;
    this.#under = under;
    this.home = mkdtempSync(join(tmpdir(), "holdfast-cli-"));
    this.dataDir = join(this.home, "data");
    t.after(async () => {
      const left = [...this.#children];
      for (const child of left) child.kill("SIGKILL");
      await Promise.all(left.map((child) => once(child, "close")));
      rmSync(this.home, { recursive: true, force: true });
    });
  }

  /** Runs a command to its end. */
  run(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Finished> {
    return this.#start(args, env).exit;
  }

  /** Begins a command that a test may end. */
  begin(args: readonly string[]): Pick<Running, "signal" | "exit"> {
    const { child, exit } = this.#start(args, {});
    return { exit, signal: (signal) => void child.kill(signal) };
  }

  /** Starts a server on `dataDir` and waits until it says where it listens. */
  async serve(
    args: readonly string[] = [],
    env: Readonly<Record<string, string>> = {},
    log: number | "pipe" = "pipe",
  ): Promise<Running> {
    const without = this.#hasLine ? [] : ["--no-line", "--drain-ms", "0"];
    // Tests start a server again on the port that it had.
    const port = String(await keptPort());
    const given = args.map((arg, at) => (args[at - 1] === "--port" && arg === "0" ? port : arg));
    const { child, exit, stdout, stderr } = this.#start(
      ["serve", "--port", port, ...this.inDataDir, ...without, ...given],
      env,
      log,
    );
    const isUp = (): boolean => stdout().includes("  docs ");
    while (!isUp()) {
      const news = await Promise.race([once(child.stdout ?? child, "data"), exit]);
      if ("code" in news) assert.fail(`the server ended with ${String(news.code)}: ${news.stderr}`);
    }
    return {
      pid: child.pid ?? 0,
      url: /listening on ([^\s,]+)/.exec(stdout())?.[1] ?? "",
      apiKey: this.#keptKey(),
      stdout,
      stderr,
      exit,
      signal: (signal) => void child.kill(signal),
      closeStderr: () => void child.stderr?.destroy(),
    };
  }

  /** The API key that the first start makes and keeps; empty when it was given another way. */
  #keptKey(): string {
    const path = join(this.dataDir, "api-key");
    return existsSync(path) ? readFileSync(path, "utf8").trim() : "";
  }

  get inDataDir(): readonly [string, string] {
    return ["--data-dir", this.dataDir];
  }

  #start(args: readonly string[], env: Readonly<Record<string, string>>, log: number | "pipe" = "pipe") {
    const [command, ...before] = [...this.#under, process.execPath, COMMAND];
    const child = spawn(command, [...before, ...args], {
      cwd: this.home,
      env: {
        ...inherited(),
        PATH: process.env["PATH"],
        HOME: this.home,
        XDG_DATA_HOME: join(this.home, "share"),
        ...env,
      },
      // A group of its own, which a test can kill as a whole.
      detached: this.#hasLine,
      stdio: ["ignore", "pipe", log],
      timeout: this.#patienceMs,
      killSignal: "SIGKILL",
    });
    this.#children.add(child);
    let stdout = "";
    let stderr = "";
    child.stdout?.setEncoding("utf8").on("data", (text: string) => (stdout += text));
    child.stderr?.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    const exit = new Promise<Finished>((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (code) => {
        this.#children.delete(child);
        resolve({ code, stdout, stderr: stderr.replaceAll(PROGRESS, "").replaceAll(NOTICES, "") });
      });
    });
    return { child, exit, stdout: () => stdout, stderr: () => stderr };
  }
}

/** Whether a call with this API key gets past the sign-in; what it asks for does not matter. */
export async function isLetIn(url: string, apiKey: string): Promise<boolean> {
  const response = await fetch(`${url}/holdfast.v1.StreamService/Append`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${apiKey}` },
    body: "{}",
  });
  await response.arrayBuffer();
  return response.status !== 401;
}
