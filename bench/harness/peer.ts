/**
 * The parent's end of a benchmark process: spawns it, calls its commands, ends it.
 *
 * A server runs on one core and the load on another, where `taskset` and two cores exist, so that
 * neither takes time from the other and every variant has the same room.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { availableParallelism } from "node:os";
import { type Arguments, isRecord, type Measured, measuredOf } from "./numbers.ts";

export type Core = "server" | "load" | "any";

export interface PeerOptions {
  readonly core: Core;
  /** For Node itself, before the script. */
  readonly nodeOptions?: readonly string[];
}

interface Waiting {
  resolve(measured: Measured): void;
  reject(error: Error): void;
}

/** A process that answers no call for so long hangs. */
const CALL_TIMEOUT_MS = 300_000;

export class Peer {
  readonly #process: ChildProcess;
  readonly #file: string;
  readonly #waiting = new Map<number, Waiting>();
  readonly #ended: Promise<void>;
  #calls = 0;
  #isStopping = false;

  static async start(file: string, options: PeerOptions): Promise<Peer> {
    const peer = new Peer(file, options);
    await peer.#ready();
    return peer;
  }

  private constructor(file: string, { core, nodeOptions = [] }: PeerOptions) {
    const script = `${import.meta.dirname}/../${file}`;
    const [command, ...args] = [...pinning(core), process.execPath, ...nodeOptions, script];
    this.#file = file;
    this.#process = spawn(command ?? process.execPath, args, {
      // Some of the servers under test write logs to stdout, where the table goes.
      stdio: ["ignore", "ignore", "inherit", "ipc"],
      env: { ...process.env, NODE_NO_WARNINGS: "1" },
    });
    this.#ended = new Promise((resolve) => {
      const over = (why: string): void => {
        for (const waiting of this.#waiting.values()) waiting.reject(new Error(`${file} ended: ${why}`));
        this.#waiting.clear();
        resolve();
      };
      this.#process.once("exit", (code, signal) => over(`code ${String(code)}, signal ${String(signal)}`));
      this.#process.once("error", (error) => over(error.message));
    });
    this.#process.on("message", (message: unknown) => this.#received(message));
    running.add(this);
    void this.#ended.then(() => running.delete(this));
  }

  async call(name: string, given: Arguments = {}): Promise<Measured> {
    return this.#wait(name, (call) => this.#process.send({ call, name, given }));
  }

  /** Ends it as a crash does. */
  async kill(): Promise<void> {
    this.#isStopping = true;
    this.#process.kill("SIGKILL");
    await this.#ended;
  }

  /** Lets it write what it writes at exit (a profile), then insists. */
  async stop(): Promise<void> {
    if (this.#isStopping) return this.#ended;
    this.#isStopping = true;
    if (this.#process.connected) this.#process.disconnect();
    const timer = setTimeout(() => this.#process.kill("SIGKILL"), 10_000);
    await this.#ended;
    clearTimeout(timer);
  }

  #ready(): Promise<Measured> {
    return this.#wait("start", () => undefined);
  }

  #wait(what: string, begin: (call: number) => unknown): Promise<Measured> {
    const call = this.#calls++;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        reject(new Error(`${this.#file} did not answer "${what}" in ${CALL_TIMEOUT_MS / 1000} s`));
      }, CALL_TIMEOUT_MS);
      const settle = <Value>(how: (value: Value) => void) => {
        return (value: Value): void => {
          clearTimeout(timer);
          how(value);
        };
      };
      this.#waiting.set(call, { resolve: settle(resolve), reject: settle(reject) });
      begin(call);
    });
  }

  #received(message: unknown): void {
    if (!isRecord(message)) return;
    const call = message["ready"] === true ? 0 : Number(message["call"]);
    const waiting = this.#waiting.get(call);
    this.#waiting.delete(call);
    if (waiting === undefined) return;
    if (typeof message["error"] === "string") waiting.reject(new Error(`${this.#file}: ${message["error"]}`));
    else waiting.resolve(measuredOf(message["result"] ?? {}));
  }
}

const running = new Set<Peer>();

/** At the end of a row, whatever happened in it. */
export async function stopAllPeers(): Promise<void> {
  await Promise.all([...running].map((peer) => peer.stop()));
}

export const canPin =
  process.platform === "linux" && existsSync("/usr/bin/taskset") && availableParallelism() >= 2;

function pinning(core: Core): readonly string[] {
  if (!canPin || core === "any") return [];
  return ["/usr/bin/taskset", "-c", core === "server" ? "0" : "1"];
}
