/**
 * The real Codex, with a home and a project of its own.
 */
import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import type { TestContext } from "node:test";
import { binaryOf, type ClientPackage } from "./client-binary.ts";

const CODEX: ClientPackage = {
  name: "Codex",
  package: "@openai/codex",
  version: "0.166.0-linux-x64",
  binary: join("vendor", "x86_64-unknown-linux-musl", "bin", "codex"),
};
/** It takes seconds on an idle machine; a hanging one must not hang the test run. */
const RUN_MS = 200_000;

/** Undefined, and said so, where it cannot be had. */
export function codexFor(t: TestContext): Promise<string | undefined> {
  return binaryOf(t, CODEX);
}

export interface CodexRun {
  readonly code: number | null;
  /** The last message. */
  readonly stdout: string;
  readonly stderr: string;
}

export interface CodexSettings {
  readonly binary: string;
  readonly home: string;
  readonly apiKey: string;
  /** Its `config.toml`. */
  readonly config: string;
}

/** One user's Codex. */
export class Codex {
  readonly project: string;
  readonly #settings: CodexSettings;

  constructor(settings: CodexSettings) {
    this.#settings = settings;
    this.project = join(settings.home, "project");
    mkdirSync(this.project, { recursive: true });
    mkdirSync(join(settings.home, ".codex"), { recursive: true });
    // Its own sandbox needs what containers do not have.
    const free = 'approval_policy = "never"\nsandbox_mode = "danger-full-access"\n';
    writeFileSync(join(settings.home, ".codex", "config.toml"), `${free}${settings.config}`);
  }

  exec(message: string): Promise<CodexRun> {
    return this.#run("exec", "--skip-git-repo-check", message);
  }

  resume(message: string): Promise<CodexRun> {
    return this.#run("exec", "--skip-git-repo-check", "resume", "--last", message);
  }

  async #run(...args: readonly string[]): Promise<CodexRun> {
    const { binary, home, apiKey } = this.#settings;
    const child = spawn(binary, args, {
      cwd: this.project,
      env: {
        PATH: process.env["PATH"],
        HOME: home,
        CODEX_HOME: join(home, ".codex"),
        HOLDFAST_API_KEY: apiKey,
      },
      stdio: ["ignore", "pipe", "pipe"],
      timeout: RUN_MS,
      killSignal: "SIGKILL",
    });
    const code = new Promise<number | null>((resolve, reject) => {
      child.once("error", reject);
      child.once("close", resolve);
    });
    const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
    return { code: await code, stdout, stderr };
  }
}
