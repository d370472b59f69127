/**
 * The parent of a server that is the first process of its container, or the main process of a systemd service: when that process ends, everything
 * ends, the line included.
 *
 * It passes signals on and ends as the server ends. Only a server that a signal killed is started again, so that its line and what it holds are
 * still there; one that is killed again and again is given up.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { constants } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { GUARDED } from "./stop-signals.ts";

const STARTS_MAX = 5;
const WITHIN_MS = 60_000;
const PAUSE_MS = 250;
const PASSED_ON = ["SIGINT", "SIGTERM"] as const;

/** Before the next start, when these were the earlier ones; undefined: no more. */
export function pauseMsBefore(startsMs: readonly number[], nowMs: number): number | undefined {
  const recent = startsMs.filter((startMs) => nowMs - startMs < WITHIN_MS).length;
  return recent > STARTS_MAX ? undefined : PAUSE_MS * 2 ** (recent - 1);
}

/** Where a process is asked to stand that nothing of what it has started outlives. */
interface Place {
  readonly pid: number;
  readonly ppid: number;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/**
 * True for the first process of a container, and for the main process of a service: systemd says its number (since version 248), and before
 * that a service's id and a parent that is process 1 show it.
 */
export function endsEverything({ pid, ppid, env }: Place): boolean {
  const main = env["SYSTEMD_EXEC_PID"];
  if (pid === 1 || main === String(pid)) return true;
  return main === undefined && env["INVOCATION_ID"] !== undefined && ppid === 1;
}

interface GuardOptions {
  readonly command: string;
  readonly args: readonly string[];
  readonly note: (text: string) => void;
  readonly now: () => number;
}

/** Resolves with the exit code of the server that is not started again. */
export async function guard({ command, args, note, now }: GuardOptions): Promise<number> {
  const startsMs: number[] = [];
  const stopping = new AbortController();
  let server: ChildProcess | undefined;
  let listens = false;
  const pass = (signal: NodeJS.Signals): void => {
    stopping.abort();
    // As a message, which the server tells from a signal that a service manager sends to every process (`stop-signals.ts`).
    if (listens && server?.connected === true) server.send(signal);
    else server?.kill(signal);
  };
  for (const signal of PASSED_ON) process.on(signal, pass);
  try {
    for (;;) {
      startsMs.push(now());
      // A group of its own: what a terminal sends would come twice.
      server = spawn(command, args, { stdio: ["inherit", "inherit", "inherit", "ipc"], detached: true });
      listens = false;
      server.once("message", () => {
        listens = true;
        server?.send(GUARDED);
      });
      const end = await endOf(server);
      if (typeof end === "number") return end;
      const pauseMs = pauseMsBefore(startsMs, now());
      const given = 128 + constants.signals[end];
      if (stopping.signal.aborted || pauseMs === undefined) return given;
      note(`The server was killed (${end}). It is started again; what its line holds is continued.`);
      await sleep(pauseMs);
      if (stopping.signal.aborted) return given;
    }
  } finally {
    for (const signal of PASSED_ON) process.off(signal, pass);
  }
}

/** Its exit code, or the signal that killed it. */
function endOf(server: ChildProcess): Promise<number | NodeJS.Signals> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.once("exit", (code, signal) => resolve(signal ?? code ?? 1));
  });
}
