/**
 * `holdfast serve` with its line, as a user runs it: killed, stopped and started again on the same port and directory.
 */
import assert from "node:assert/strict";
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { askLine } from "../agent/models/line/line-rig.ts";
import { MODEL } from "../agent/models/providers/formats.ts";
import type { Cleanup } from "../cleanup.ts";
import { Cli, type Running } from "../cli/cli-process.ts";
import { Exchange } from "../gateway/openai-user.ts";

const LINE_PAUSE_MS = 50;
const LINE_TRIES_MAX = 200;

export class Served {
  readonly #cli: Cli;
  #running: Running | undefined;
  #port = "0";

  /** `under`: a command that runs the server. */
  constructor(t: Cleanup, config: object, under: readonly string[] = []) {
    // Before the directory goes, by which it is found.
    t.after(async () => {
      const pid = await this.linePid();
      if (pid !== undefined) process.kill(pid, "SIGKILL");
    });
    this.#cli = new Cli(t, { hasLine: true, under });
    const models = { offered: [`local/${MODEL}`] };
    const settings = { providers: { local: { ...config, apiKeyEnv: "LOCAL_KEY" } }, models };
    writeFileSync(join(this.#cli.home, "holdfast.config.json"), JSON.stringify(settings));
  }

  async start(): Promise<void> {
    const env = { LOCAL_KEY: "of-the-provider", XDG_RUNTIME_DIR: this.#cli.home };
    this.#running = await this.#cli.serve(["--port", this.#port, "--drain-ms", "2000"], env);
    this.#port = new URL(this.#running.url).port;
  }

  ask(body: string | undefined, path?: string, headers: Record<string, string> = {}): Exchange {
    const { url = "", apiKey = "" } = this.#running ?? {};
    const how = path === undefined ? {} : { path, method: "GET" };
    return new Exchange(url, body, { apiKey, headers, ...how });
  }

  async signal(signal: "SIGKILL" | "SIGTERM"): Promise<void> {
    this.#running?.signal(signal);
    if (signal === "SIGKILL") await this.#running?.exit;
  }

  get url(): string {
    return this.#running?.url ?? "";
  }

  get home(): string {
    return this.#cli.home;
  }

  get apiKey(): string {
    return this.#running?.apiKey ?? "";
  }

  get pid(): number {
    return this.#running?.pid ?? 0;
  }

  get exit(): Promise<unknown> | undefined {
    return this.#running?.exit;
  }

  async exitCode(): Promise<number | null | undefined> {
    return (await this.#running?.exit)?.code;
  }

  /** The server's own, and whatever shares it. */
  async killGroup(): Promise<void> {
    const { pid = 0, exit } = this.#running ?? {};
    process.kill(-pid, "SIGKILL");
    await exit;
  }

  /** What the server that runs now counts. */
  async metrics(): Promise<string> {
    return (await fetch(`${this.url}/metrics`)).text();
  }

  /** Names of a table's rows that a process which is killed now leaves behind. */
  rowsOf(table: string): readonly string[] {
    const database = new DatabaseSync(join(this.#cli.dataDir, "holdfast.db"), { readOnly: true });
    try {
      return database
        .prepare("SELECT key FROM rows WHERE tab = ?")
        .all(table)
        .map(({ key }) => String(key));
    } finally {
      database.close();
    }
  }

  /**
   * Nothing becomes durable until the function is called: the database is as busy as with a slow disk. The server waits five seconds for it, and what it
   * reads waits behind what it writes.
   */
  holdWrites(): () => void {
    // The server may just write rows that follow an earlier answer.
    const database = new DatabaseSync(join(this.#cli.dataDir, "holdfast.db"), { timeout: 60_000 });
    database.exec("BEGIN IMMEDIATE");
    return () => database.close();
  }

  async isDraining(): Promise<boolean> {
    return (await fetch(`${this.#running?.url}/ready`)).status === 503;
  }

  async linePid(): Promise<number | undefined> {
    const directory = join(this.#cli.home, "holdfast");
    const files = existsSync(directory) ? readdirSync(directory) : [];
    const name = files.find((file) => file.endsWith(".sock"));
    const hello = askLine(join(directory, name ?? ""), { ask: "hello", nonce: "x" });
    const { pid } = await hello.catch(() => ({ pid: undefined }));
    return typeof pid === "number" ? pid : undefined;
  }

  /** Waits for it: no server waits for its line, so on a machine that is not idle the line begins behind the first request. */
  async killLine(): Promise<void> {
    for (let tries = 0; tries < LINE_TRIES_MAX; tries++) {
      const pid = await this.linePid();
      if (pid !== undefined) {
        process.kill(pid, "SIGKILL");
        return;
      }
      await sleep(LINE_PAUSE_MS);
    }
    assert.fail("there is no line");
  }
}
