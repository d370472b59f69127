/**
 * The real Codex, with a home and a project of its own.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { binaryOf, type ClientPackage, type ClientRun, runClient } from "./client-binary.ts";

const CODEX: ClientPackage = {
  name: "Codex",
  package: "@openai/codex",
  version: "0.166.0-linux-x64",
  binary: join("vendor", "x86_64-unknown-linux-musl", "bin", "codex"),
};

/** Undefined, and said so, where it cannot be had. */
export function codexFor(t: TestContext): Promise<string | undefined> {
  return binaryOf(t, CODEX);
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

  exec(message: string): Promise<ClientRun> {
    return this.#run("exec", "--skip-git-repo-check", message);
  }

  resume(message: string): Promise<ClientRun> {
    return this.#run("exec", "--skip-git-repo-check", "resume", "--last", message);
  }

  async #run(...args: readonly string[]): Promise<ClientRun> {
    const { binary, home, apiKey } = this.#settings;
    const env = { HOME: home, CODEX_HOME: join(home, ".codex"), HOLDFAST_API_KEY: apiKey };
    return runClient(binary, args, { cwd: this.project, env });
  }
}
