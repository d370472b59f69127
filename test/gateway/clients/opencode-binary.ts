/**
 * The real OpenCode, with a home and a project of its own.
 */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import type { TestContext } from "node:test";
import { binaryOf, type ClientPackage } from "./client-binary.ts";

const OPENCODE: ClientPackage = {
  name: "OpenCode",
  package: "opencode-linux-x64",
  version: "1.18.33",
  binary: join("bin", "opencode"),
};
/** It takes seconds on an idle machine; a hanging one must not hang the test run. */
const RUN_MS = 200_000;

/** Undefined, and said so, where it cannot be had. */
export function binaryFor(t: TestContext): Promise<string | undefined> {
  return binaryOf(t, OPENCODE);
}

export interface OpencodeRun {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface OpencodeSettings {
  readonly binary: string;
  readonly home: string;
  readonly baseURL: string;
  readonly apiKey: string;
  readonly model: string;
  /** Its `opencode.json` instead of ours; the base URL is put in, and what a test run needs beside it. */
  readonly config?: OpencodeConfig;
}

/** As the README has it. */
export interface OpencodeConfig {
  readonly provider: Readonly<Record<string, { readonly options: object }>>;
  readonly model: string;
}

/** One user's OpenCode: with a home, a project, and the gateway as its only provider. */
export class Opencode {
  readonly project: string;
  readonly #settings: OpencodeSettings;

  constructor(settings: OpencodeSettings) {
    const { home, baseURL, apiKey, model } = settings;
    this.#settings = settings;
    this.project = join(home, "project");
    mkdirSync(this.project, { recursive: true });
    const models = { [model]: { limit: { context: 100_000, output: 8_000 } } };
    const gw = { npm: "@ai-sdk/openai-compatible", options: { baseURL, apiKey }, models };
    const given = settings.config ?? { provider: { gw }, model: `gw/${model}` };
    const provider = Object.fromEntries(
      Object.entries(given.provider).map(([name, { options, ...rest }]) => [
        name,
        { ...rest, options: { ...options, baseURL } },
      ]),
    );
    const config = {
      ...given,
      provider,
      small_model: given.model,
      share: "disabled",
      autoupdate: false,
      permission: { "*": "allow" },
    };
    writeFileSync(join(this.project, "opencode.json"), JSON.stringify(config));
  }

  /** What is said comes by standard input: arguments it would put into quotation marks. */
  async run(message: string, ...args: readonly string[]): Promise<OpencodeRun> {
    const child = this.#start("run", ...args);
    child.stdin.end(message);
    const code = new Promise<number | null>((resolve, reject) => {
      child.once("error", reject);
      child.once("close", resolve);
    });
    const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
    return { code: await code, stdout, stderr };
  }

  /** Its server, which its terminal and its editors talk to: for many questions, of which each would take seconds to start it. Resolves with its URL. */
  async serve(t: TestContext, port: number): Promise<string> {
    const child = this.#start("serve", "--hostname", "127.0.0.1", "--port", String(port));
    const closed = once(child, "close");
    t.after(async () => {
      child.kill("SIGKILL");
      await closed;
    });
    let said = "";
    child.stderr.setEncoding("utf8").on("data", (piece: string) => (said += piece));
    child.stdout.setEncoding("utf8").on("data", (piece: string) => (said += piece));
    while (!said.includes("listening on")) {
      const isOver = await Promise.race([once(child.stdout, "data").then(() => false), closed]);
      if (isOver !== false) throw new Error(`OpenCode's server ended: ${said}`);
    }
    return `http://127.0.0.1:${port}`;
  }

  #start(...args: readonly string[]): ChildProcessWithoutNullStreams {
    const { binary, home } = this.#settings;
    return spawn(binary, args, {
      cwd: this.project,
      env: {
        PATH: process.env["PATH"],
        HOME: home,
        HOLDFAST_API_KEY: this.#settings.apiKey,
        OPENCODE_DISABLE_MODELS_FETCH: "1",
        OPENCODE_PURE: "1",
      },
      stdio: ["pipe", "pipe", "pipe"],
      timeout: args[0] === "run" ? RUN_MS : 0,
      killSignal: "SIGKILL",
    });
  }
}
