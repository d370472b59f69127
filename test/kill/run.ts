/**
 * Real processes, really killed: a server and a client, each ended by SIGKILL at random moments and
 * started again, then everything they saw and did compared with the database.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { nodeSealing } from "../../src/sealing/node.ts";
import { openSqliteStore } from "../../src/store/sqlite/index.ts";
import { fillDisk, makeRoom } from "./full-disk.ts";
import { checkEvidence, type Findings } from "./check.ts";
import { readHistory } from "./history.ts";
import { listeningPort, PRINCIPAL, type Setup, setupEnvironment } from "./setup.ts";
import { keptPort } from "../kept-port.ts";

export interface KillOptions {
  readonly cycles: number;
  /** The run goes on until so many streams have begun: on a busy machine they take longer than the time between two kills. Default: one. */
  readonly streams?: number;
  /** How often the server's disk is full for a while. */
  readonly fills?: number;
  readonly transport: "http2" | "fetch";
  readonly say: (line: string) => void;
}

export interface KillReport extends Findings {
  readonly clientKills: number;
  readonly serverKills: number;
  /** How often the server's store was opened anew. */
  readonly reopened: number;
}

/** Long enough for any stream to come to its end, on a machine busy with something else. */
const FINISH_MS = 120_000;

/** Throws at the first violation; the directory with the evidence is then kept and named. */
export async function runKills(options: KillOptions): Promise<KillReport> {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-kill-"));
  const run = new Run(directory, options);
  try {
    const report = await run.go();
    rmSync(directory, { recursive: true, force: true });
    return report;
  } catch (cause) {
    throw new Error(`the evidence is in ${directory}`, { cause });
  } finally {
    run.stop();
  }
}

class Run {
  readonly #options: KillOptions;
  readonly #setup: Omit<Setup, "port" | "url" | "directory">;
  readonly #serverDirectory: string;
  readonly #clientDirectory: string;
  #port = 0;
  #server: ChildProcess | undefined;
  #client: ChildProcess | undefined;
  #clientIsReady: Promise<unknown> = Promise.resolve();
  #clientKills = 0;
  #serverKills = 0;
  #reopened = 0;

  constructor(directory: string, options: KillOptions) {
    this.#options = options;
    this.#serverDirectory = join(directory, "server");
    this.#clientDirectory = join(directory, "client");
    mkdirSync(this.#serverDirectory);
    mkdirSync(this.#clientDirectory);
    this.#setup = {
      apiKey: "for-this-run-only",
      homeKey: Buffer.alloc(32, 7).toString("base64url"),
      history: join(directory, "history.jsonl"),
      transport: options.transport,
      seed: 1,
    };
  }

  async go(): Promise<KillReport> {
    await this.#startServer();
    this.#startClient();
    for (let cycle = 1; cycle <= this.#options.cycles; cycle++) {
      await this.#killOne();
      if (cycle % 10 === 0) this.#options.say(`${String(cycle)} of ${String(this.#options.cycles)} kills`);
    }
    for (let fill = 0; fill < (this.#options.fills ?? 0); fill++) await this.#fillOnce();
    while (this.#begun < (this.#options.streams ?? 1)) {
      if (this.#options.cycles > 0) await this.#killOne();
      else await sleep(100);
    }
    await this.#finish();
    const findings = await this.#check();
    const [clientKills, serverKills, reopened] = [this.#clientKills, this.#serverKills, this.#reopened];
    return { ...findings, clientKills, serverKills, reopened };
  }

  get #begun(): number {
    return readHistory(this.#setup.history).filter(({ kind }) => kind === "opened").length;
  }

  stop(): void {
    this.#client?.kill("SIGKILL");
    this.#server?.kill("SIGKILL");
  }

  async #killOne(): Promise<void> {
    const draw = Math.random();
    // Mostly when it has something to lose; now and then while it starts.
    if (Math.random() < 0.8) await this.#clientIsReady;
    await sleep(Math.random() * 700);
    if (draw < 0.55) {
      this.#clientKills++;
      await kill(this.#client);
    }
    if (draw > 0.45) {
      this.#serverKills++;
      await kill(this.#server);
      await this.#startServer();
    }
    if (draw < 0.55) this.#startClient();
  }

  /** The server lives through it, and so do its clients. */
  async #fillOnce(): Promise<void> {
    await this.#clientIsReady;
    await sleep(Math.random() * 500);
    const server = this.#server;
    if (server?.pid === undefined) throw new Error("there is no server");
    fillDisk(server.pid);
    await news(server, "failed");
    await sleep(Math.random() * 300);
    makeRoom(server.pid);
    await news(server, "back");
    this.#reopened++;
  }

  /** Nothing is killed any more: every stream must come to its end, and the server stop in good order. */
  async #finish(): Promise<void> {
    this.#client?.send("finish");
    await exited(this.#client, "the client");
    this.#server?.kill("SIGTERM");
    await exited(this.#server, "the server");
  }

  async #check(): Promise<Findings> {
    const store = await openSqliteStore(this.#serverDirectory, { now: () => Date.now() });
    try {
      return await checkEvidence({
        store: store.streams,
        sealing: nodeSealing(),
        homeKey: Buffer.from(this.#setup.homeKey, "base64url"),
        principal: PRINCIPAL,
        facts: readHistory(this.#setup.history),
      });
    } finally {
      await store.close();
    }
  }

  async #startServer(): Promise<void> {
    // The next one listens where clients look for it.
    if (this.#port === 0) this.#port = await keptPort();
    const server = this.#start("server.ts", this.#serverDirectory);
    this.#server = server;
    await listeningPort(server);
  }

  #startClient(): void {
    const client = this.#start("client.ts", this.#clientDirectory);
    this.#client = client;
    this.#clientIsReady = Promise.race([once(client, "message"), once(client, "exit")]);
  }

  #start(program: string, directory: string): ChildProcess {
    const setup = {
      ...this.#setup,
      directory,
      port: this.#port,
      url: `http://127.0.0.1:${String(this.#port)}`,
    };
    return fork(join(import.meta.dirname, program), { env: setupEnvironment(setup) });
  }
}

/** What the server says about its store. */
async function news(server: ChildProcess, kind: string): Promise<void> {
  for (;;) {
    const messages: readonly unknown[] = await once(server, "message", {
      signal: AbortSignal.timeout(FINISH_MS),
    });
    const [told] = messages;
    if (typeof told === "object" && told !== null && "store" in told && told.store === kind) return;
  }
}

async function kill(child: ChildProcess | undefined): Promise<void> {
  if (child === undefined) return;
  if (child.exitCode !== null)
    throw new Error(`a process ended by itself: exit code ${String(child.exitCode)}`);
  const gone = once(child, "exit");
  child.kill("SIGKILL");
  await gone;
}

async function exited(child: ChildProcess | undefined, who: string): Promise<void> {
  if (child === undefined) return;
  if (child.exitCode === null) await once(child, "exit", { signal: AbortSignal.timeout(FINISH_MS) });
  if (child.exitCode !== 0) throw new Error(`${who} ended with exit code ${String(child.exitCode)}`);
}
