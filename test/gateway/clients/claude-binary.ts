/**
 * The real Claude Code, with a home and a project of its own.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { binaryOf, type ClientPackage, type ClientRun, runClient } from "./client-binary.ts";

const CLAUDE: ClientPackage = {
  name: "Claude Code",
  package: "@anthropic-ai/claude-code-linux-x64",
  version: "2.1.326",
  binary: "claude",
};

/** Undefined, and said so, where it cannot be had. */
export function claudeFor(t: TestContext): Promise<string | undefined> {
  return binaryOf(t, CLAUDE);
}

export interface ClaudeSettings {
  readonly binary: string;
  readonly home: string;
  /** Its `settings.json`. */
  readonly settings: object;
}

/** One user's Claude Code. What it may do is said by name: as root it refuses to be allowed everything. */
export class Claude {
  readonly project: string;
  readonly #settings: ClaudeSettings;

  constructor(settings: ClaudeSettings) {
    this.#settings = settings;
    this.project = join(settings.home, "project");
    mkdirSync(this.project, { recursive: true });
    mkdirSync(join(settings.home, ".claude"), { recursive: true });
    writeFileSync(join(settings.home, ".claude", "settings.json"), JSON.stringify(settings.settings));
  }

  async ask(message: string, ...more: readonly string[]): Promise<ClientRun> {
    const { binary, home } = this.#settings;
    const env = { HOME: home, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1" };
    return runClient(binary, ["-p", message, ...more, "--allowedTools", "Bash"], { cwd: this.project, env });
  }
}

/** As `holdfast setup claude` writes it. */
export function claudeSettings(model: string, url: string, apiKey: string): object {
  return { env: { ANTHROPIC_BASE_URL: url, ANTHROPIC_AUTH_TOKEN: apiKey, ANTHROPIC_MODEL: model } };
}
