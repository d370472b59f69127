/**
 * `holdfast chat` as a person or a script runs it: a real process, a server that it starts by itself, a workspace, a home.
 */
import assert from "node:assert/strict";
import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { COMMAND } from "../command.ts";
import { inherited } from "../inherited.ts";
import { stopServer } from "./background-server.ts";
import { TinyTerminal } from "./tiny-terminal.ts";

const PATIENCE_MS = 60_000;
const COLUMNS = 90;
const ROWS = 30;

export interface ChatEnd {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export class ChatProcess {
  readonly child: ChildProcessWithoutNullStreams;
  readonly end: Promise<ChatEnd>;
  readonly #terminal = new TinyTerminal(COLUMNS, ROWS);
  #stdout = "";
  #stderr = "";

  constructor(command: string, args: readonly string[], options: { cwd: string; env: NodeJS.ProcessEnv }) {
    this.child = spawn(command, args, {
      ...options,
      stdio: "pipe",
      timeout: PATIENCE_MS,
      killSignal: "SIGKILL",
    });
    this.child.stdout.setEncoding("utf8").on("data", (text: string) => {
      this.#stdout += text;
      this.#terminal.write(text);
    });
    this.child.stderr.setEncoding("utf8").on("data", (text: string) => (this.#stderr += text));
    this.end = once(this.child, "close").then(([code]: (number | null)[]) => ({
      code: code ?? null,
      stdout: this.#stdout,
      stderr: this.#stderr,
    }));
  }

  /** What a person sees who scrolls up to the beginning. */
  get screen(): string {
    return this.#terminal.lines.join("\n");
  }

  type(text: string): void {
    this.child.stdin.write(text);
  }

  /** Waits until the screen shows it. */
  shows(pattern: RegExp): Promise<void> {
    return this.#until(() => pattern.test(this.screen), pattern);
  }

  /** Waits until it is in the output, as a program reads it. */
  prints(pattern: RegExp): Promise<void> {
    return this.#until(() => pattern.test(this.#stdout), pattern);
  }

  async #until(isThere: () => boolean, pattern: RegExp): Promise<void> {
    for (;;) {
      if (isThere()) return;
      const news = await Promise.race([once(this.child.stdout, "data"), this.end]);
      if ("code" in news && !isThere()) {
        assert.fail(
          `it ended with ${String(news.code)} before it showed ${String(pattern)}:\n${this.screen}\n${news.stderr}`,
        );
      }
    }
  }
}

export class ChatRig {
  readonly workspace: string;
  readonly dataDir: string;
  readonly #home: string;
  readonly #running = new Set<ChatProcess>();

  constructor(t: TestContext) {
    this.#home = mkdtempSync(join(tmpdir(), "holdfast-chat-"));
    this.workspace = join(this.#home, "workspace");
    this.dataDir = join(this.#home, "data");
    mkdirSync(this.workspace);
    t.after(async () => {
      for (const { child } of this.#running) child.kill("SIGKILL");
      await Promise.all([...this.#running].map(({ end }) => end));
      await stopServer(this.dataDir);
      rmSync(this.#home, { recursive: true, force: true });
    });
  }

  start(...args: readonly string[]): ChatProcess {
    return this.#keep(new ChatProcess(process.execPath, [COMMAND, ...this.#args(args)], this.#options()));
  }

  /** Runs to the end, with what is piped in. */
  async run(args: readonly string[], input = ""): Promise<ChatEnd> {
    const chat = this.start(...args);
    chat.child.stdin.end(input);
    return chat.end;
  }

  /** On a terminal of its own, made by `script` of util-linux. */
  onTerminal(...args: readonly string[]): ChatProcess {
    const command = ["exec", process.execPath, COMMAND, ...this.#args(args)].map(quoted).join(" ");
    const script = ["-qfec", `stty cols ${COLUMNS} rows ${ROWS}; ${command}`, "/dev/null"];
    return this.#keep(new ChatProcess("script", script, this.#options()));
  }

  /** A server that a person starts on the same data directory, once it says where it listens. */
  async serve(...args: readonly string[]): Promise<{ readonly pid: number; readonly url: string }> {
    const flags = ["serve", "--data-dir", this.dataDir, ...args];
    const server = this.#keep(new ChatProcess(process.execPath, [COMMAND, ...flags], this.#options()));
    await server.shows(/\n {2}docs /);
    return {
      pid: server.child.pid ?? 0,
      url: /listening on (?<url>[^\s,]+)/.exec(server.screen)?.groups?.["url"] ?? "",
    };
  }

  #args(args: readonly string[]): readonly string[] {
    return ["chat", "--data-dir", this.dataDir, ...args];
  }

  #options() {
    const env = { PATH: process.env["PATH"], HOME: this.#home, TERM: "xterm-256color", SHELL: "/bin/sh" };
    return { cwd: this.workspace, env: { ...env, ...inherited() } };
  }

  #keep(chat: ChatProcess): ChatProcess {
    this.#running.add(chat);
    void chat.end.then(() => this.#running.delete(chat));
    return chat;
  }
}

/** Undefined, and said, where there is no way to make a terminal. */
export function terminalRig(t: TestContext): ChatRig | undefined {
  if (hasScript()) return new ChatRig(t);
  t.diagnostic("there is no `script` of util-linux here: the terminal is not tested");
  return undefined;
}

export function hasScript(): boolean {
  return spawnSync("script", ["--version"]).stdout?.toString().includes("util-linux") ?? false;
}

function quoted(word: string): string {
  return /^[\w./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
