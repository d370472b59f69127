/**
 * `holdfast serve` and a client of its agent as real processes, to be stopped and killed at will.
 */
import { type ChildProcess, fork, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fromBinary } from "../../src/protocol/message.ts";
import { openClient } from "../../src/client-node/index.ts";
import { openJournals } from "../../src/client-node/journals.ts";
import { readJournal } from "../../src/client/journal-file.ts";
import { type AgentServerMessage, AgentServerMessageSchema } from "../../src/protocol/messages.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { COMMAND } from "../command.ts";
import { inherited } from "../inherited.ts";
import { agentEnvironment, type AgentSetup, isTold, type Order, type Told } from "./agent-setup.ts";
import { keptPort } from "../kept-port.ts";

const API_KEY = "an-api-key-for-this-run-only-and-no-other";
const HOME_KEY = Buffer.alloc(32, 9).toString("base64url");
/** Far more than anything takes, on a machine busy with something else. */
export const PATIENCE_MS = 60_000;

/** A server, killed and started again in the same place. */
export class AgentServer {
  readonly #directory = mkdtempSync(join(tmpdir(), "holdfast-agent-kill-"));
  readonly #desks: Desk[] = [];
  #port = "0";
  #server: ChildProcess | undefined;

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async start(): Promise<void> {
    // The next one listens where clients look for it.
    if (this.#port === "0") this.#port = String(await keptPort());
    const args = [COMMAND, "serve", "--port", this.#port, "--data-dir", join(this.#directory, "server")];
    const server = spawn(process.execPath, args, {
      cwd: this.#directory,
      env: { ...inherited(), PATH: process.env["PATH"], HOME: this.#directory, HOLDFAST_API_KEY: API_KEY },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#server = server;
    await upOf(server);
  }

  pause(): void {
    this.#server?.kill("SIGSTOP");
  }

  kill(): Promise<void> {
    return kill(this.#server);
  }

  /** A place to work at: a workspace, and what a client keeps. */
  desk(): Desk {
    const desk = new Desk(this, join(this.#directory, `desk-${this.#desks.length}`));
    this.#desks.push(desk);
    return desk;
  }

  /** The events of a turn as a reader sees them, until `isEnough`. */
  async read(
    idempotencyKey: string,
    isEnough: (message: AgentServerMessage["message"]) => boolean,
  ): Promise<readonly AgentServerMessage["message"][]> {
    const homeKey = Buffer.from(HOME_KEY, "base64url");
    const reader = await openClient({ url: this.url, apiKey: API_KEY, homeKey, persistence: false });
    const messages: AgentServerMessage["message"][] = [];
    try {
      const stream = await reader.follow(idempotencyKey);
      for await (const { body } of stream.events) {
        const { message } = fromBinary(AgentServerMessageSchema, body);
        messages.push(message);
        if (isEnough(message)) break;
      }
      return messages;
    } finally {
      await reader.close();
    }
  }

  async close(): Promise<void> {
    for (const desk of this.#desks) await desk.close();
    await this.kill();
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

export class Desk {
  readonly workspace: string;
  readonly #server: AgentServer;
  readonly #directory: string;
  readonly #lives: AgentProcess[] = [];

  constructor(server: AgentServer, directory: string) {
    this.#server = server;
    this.#directory = join(directory, "client");
    this.workspace = join(directory, "workspace");
    for (const path of [this.#directory, this.workspace]) mkdirSync(path, { recursive: true });
  }

  /** The next life of the client. */
  start(options: Pick<AgentSetup, "prompt" | "turns"> & { readonly asks?: boolean }): AgentProcess {
    const life = new AgentProcess(
      {
        url: this.#server.url,
        apiKey: API_KEY,
        homeKey: HOME_KEY,
        directory: this.#directory,
        workspace: this.workspace,
        asks: false,
        ...options,
      },
      this.#lives.length === 0,
    );
    this.#lives.push(life);
    return life;
  }

  /** The lines of a file in the workspace; none while it is not there. */
  lines(name: string): readonly string[] {
    const path = join(this.workspace, name);
    return existsSync(path) ? readFileSync(path, "utf8").split("\n").slice(0, -1) : [];
  }

  /** What the tool journal on the disk says of the only exec of a turn. */
  async phaseOf(idempotencyKey: string): Promise<string> {
    const sealing = nodeSealing();
    const journals = await openJournals({
      scope: "application",
      directory: this.#directory,
      homeKey: Buffer.from(HOME_KEY, "base64url"),
      keyring: false,
      server: "",
      sealing,
      onNotice: () => undefined,
    });
    try {
      const { journal } = await readJournal(journals.store, journals.sealer, idempotencyKey);
      const phases = [...(journal?.execs.values() ?? [])].map(({ entry }) => entry.phase);
      return phases.length === 0 ? "nothing" : phases.join(", ");
    } finally {
      await journals.close();
    }
  }

  /** Makes an empty file in the workspace. */
  touch(name: string): void {
    writeFileSync(join(this.workspace, name), "");
  }

  async close(): Promise<void> {
    for (const life of this.#lives) await life.kill();
  }
}

/** One life of a client. */
export class AgentProcess {
  readonly told: Told[] = [];
  readonly #child: ChildProcess;
  #wake: () => void = () => undefined;

  constructor(setup: AgentSetup, isFirst: boolean) {
    const env = { ...agentEnvironment(setup), HOLDFAST_FIRST_LIFE: isFirst ? "1" : "0" };
    this.#child = fork(join(import.meta.dirname, "agent-client.ts"), { env });
    this.#child.on("message", (message) => {
      if (isTold(message)) this.told.push(message);
      this.#wake();
    });
    this.#child.on("exit", () => this.#wake());
  }

  say(order: Order): void {
    this.#child.send(order);
  }

  signal(signal: "SIGSTOP"): void {
    this.#child.kill(signal);
  }

  kill(): Promise<void> {
    return kill(this.#child);
  }

  get isDead(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** What it tells first that is of this kind, and as asked. */
  async hears<Kind extends Told["kind"]>(
    kind: Kind,
    isIt: (told: Extract<Told, { kind: Kind }>) => boolean = () => true,
  ): Promise<Extract<Told, { kind: Kind }>> {
    const isKind = (told: Told): told is Extract<Told, { kind: Kind }> => told.kind === kind;
    const untilMs = Date.now() + PATIENCE_MS;
    for (;;) {
      this.#checkBugs();
      const found = this.told.filter(isKind).find(isIt);
      if (found !== undefined) return found;
      if (this.isDead) throw new Error(`the client ended and never told "${kind}"`);
      if (Date.now() > untilMs) throw new Error(`the client never tells "${kind}": ${this.#last()}`);
      await this.#news();
    }
  }

  /** Until it tells anything that it has not told yet. */
  async movesOn(): Promise<void> {
    const seen = this.told.length;
    const untilMs = Date.now() + PATIENCE_MS;
    while (this.told.length === seen) {
      if (this.isDead) throw new Error("the client ended by itself");
      if (Date.now() > untilMs) throw new Error(`the client stands still: ${this.#last()}`);
      await this.#news();
    }
    this.#checkBugs();
  }

  #news(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, 1_000);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #last(): string {
    return JSON.stringify(this.told.slice(-3));
  }

  #checkBugs(): void {
    const bug = this.told.find(({ kind }) => kind === "bug");
    if (bug?.kind === "bug") throw new Error(`the client met a bug: ${bug.what}`);
  }
}

/** What a server has said when it is ready. */
function upOf(server: ChildProcess): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  let said = "";
  const hear = (text: string): void => {
    said += text;
    if (said.includes("  docs ")) resolve(said);
  };
  server.stderr?.setEncoding("utf8").on("data", hear);
  server.stdout?.setEncoding("utf8").on("data", hear);
  server.once("exit", () => reject(new Error(`the server did not start: ${said}`)));
  const timer = setTimeout(() => reject(new Error(`the server does not start: ${said}`)), PATIENCE_MS);
  return promise.finally(() => clearTimeout(timer));
}

async function kill(child: ChildProcess | undefined): Promise<void> {
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, "exit");
  child.kill("SIGKILL");
  await gone;
}
