/**
 * Runs a program in a process group of its own and sees it through to the end: exit, timeout or stop.
 *
 * The child begins as a shell that waits at a pipe. Only when its pid is on disk is the pipe written to, and
 * the shell becomes the program; a client that dies before that leaves a child that reads the end of the pipe and exits
 * without having done anything.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { Writable } from "node:stream";
import { finished } from "node:stream/promises";
import { signalGroup } from "./processes.ts";

export interface CommandOptions {
  readonly argv: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** The group exists and the program has not begun. What must be known before it begins is written here. */
  started(pid: number): void;
  output(from: "stdout" | "stderr", bytes: Uint8Array): void;
}

export interface CommandEnd {
  readonly reason: "exited" | "timeout" | "aborted";
  readonly exitCode: number;
  /** Empty = none. */
  readonly signal: string;
  readonly durationMs: number;
}

const GATE = 'read -r go <&3 && [ "$go" = go ] || exit 126; exec 3<&-; exec "$@"';
/** Time to end by itself after SIGTERM. */
const TERM_MS = 2_000;
/** Output that is still on its way when the program has exited. A background child that holds the pipe is not waited for. */
const DRAIN_MS = 250;

export async function runCommand(options: CommandOptions): Promise<CommandEnd> {
  const { argv, cwd, env, signal } = options;
  const began = performance.now();
  const child = spawn("/bin/sh", ["-c", GATE, "holdfast", ...argv], {
    cwd,
    env,
    detached: true,
    stdio: ["ignore", "pipe", "pipe", "pipe"],
  });
  child.stdout?.on("data", (bytes: Buffer) => options.output("stdout", bytes));
  child.stderr?.on("data", (bytes: Buffer) => options.output("stderr", bytes));
  const exited = exitOf(child);
  const pid = child.pid;
  if (pid === undefined) {
    await exited;
    throw new Error("the command's process could not be started");
  }
  let reason: CommandEnd["reason"] = "exited";
  /** Force did nothing: the process belongs to another user, or hangs in the kernel. */
  const inVain = Promise.withResolvers<Exit>();
  // First a request, then force.
  const stop = (why: "timeout" | "aborted"): void => {
    if (reason !== "exited") return;
    reason = why;
    signalGroup(pid, "SIGTERM");
    clearTimeout(timer);
    timer = setTimeout(() => {
      signalGroup(pid, "SIGKILL");
      timer = setTimeout(() => inVain.resolve({ code: null, killedBy: null }), TERM_MS);
    }, TERM_MS);
  };
  const onAbort = () => stop("aborted");
  let timer = setTimeout(() => stop("timeout"), options.timeoutMs);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    if (signal.aborted) onAbort();
    else {
      options.started(pid);
      openGate(child);
    }
    const { code, killedBy } = await Promise.race([exited, inVain.promise]);
    await drained(child, pid, reason !== "exited");
    return {
      reason,
      exitCode: code ?? -1,
      signal: killedBy ?? "",
      durationMs: Math.round(performance.now() - began),
    };
  } catch (cause) {
    signalGroup(pid, "SIGKILL");
    throw cause;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort);
    // One that could not be killed must not keep this process from ending.
    child.unref();
  }
}

interface Exit {
  readonly code: number | null;
  readonly killedBy: string | null;
}

function exitOf(child: ChildProcess): Promise<Exit> {
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code, killedBy) => resolve({ code, killedBy }));
  });
}

function openGate(child: ChildProcess): void {
  const gate = child.stdio[3];
  if (!(gate instanceof Writable)) throw new Error("the command's gate is missing");
  // A child that was killed at the gate is noticed by its exit.
  gate.on("error", () => undefined);
  gate.end("go\n");
}

/**
 * The leader has exited. What it left in the background lives on if it took no part in the output, as it would in a
 * terminal; one that still holds the pipe would be waited for without end, so the group is killed.
 */
async function drained(child: ChildProcess, pid: number, wasStopped: boolean): Promise<void> {
  if (wasStopped) signalGroup(pid, "SIGKILL");
  const outputs = [child.stdout, child.stderr].filter((output) => output !== null);
  const signal = AbortSignal.timeout(DRAIN_MS);
  try {
    await Promise.all(outputs.map((output) => finished(output, { signal })));
  } catch {
    signalGroup(pid, "SIGKILL");
  }
  for (const output of outputs) output.destroy();
}
