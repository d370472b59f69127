/**
 * The real Claude Code, with a home and a project of its own.
 */
import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import type { TestContext } from "node:test";
import { binaryOf, type ClientPackage } from "./client-binary.ts";

const CLAUDE: ClientPackage = {
  name: "Claude Code",
  package: "@anthropic-ai/claude-code-linux-x64",
  version: "2.1.326",
  binary: "claude",
};
/** It takes seconds on an idle machine; a hanging one must not hang the test run. */
const RUN_MS = 200_000;

/** Undefined, and said so, where it cannot be had. */
export function claudeFor(t: TestContext): Promise<string | undefined> {
  return binaryOf(t, CLAUDE);
}

export interface ClaudeRun {
  readonly code: number | null;
  /** The last message. */
  readonly stdout: string;
  readonly stderr: string;
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

  async ask(message: string, ...more: readonly string[]): Promise<ClaudeRun> {
    const { binary, home } = this.#settings;
    const child = spawn(binary, ["-p", message, ...more, "--allowedTools", "Bash"], {
      cwd: this.project,
      env: { PATH: process.env["PATH"], HOME: home, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1" },
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

/** As `holdfast setup claude` writes it. */
export function claudeSettings(model: string, url: string, apiKey: string): object {
  return { env: { ANTHROPIC_BASE_URL: url, ANTHROPIC_AUTH_TOKEN: apiKey, ANTHROPIC_MODEL: model } };
}
