/**
 * Processes as the kernel tells of them, and how to end a group of them.
 *
 * A pid alone names no process: it is used again. A pid with its start time, on the same boot, does.
 */
import { readdirSync, readFileSync } from "node:fs";
import { codeOf } from "./faults.ts";

export interface ProcessId {
  readonly pid: number;
  /** In clock ticks since the boot; "" where there is no /proc. */
  readonly started: string;
}

interface ProcessState extends ProcessId {
  readonly group: number;
}

/** Undefined when there is none. */
export function processState(pid: number): ProcessState | undefined {
  const stat = readProc(`/proc/${pid}/stat`);
  // The name in parentheses may contain anything; what follows it are numbers.
  const fields = stat?.slice(stat.lastIndexOf(")") + 2).split(" ");
  if (fields === undefined || fields[0] === "Z" || fields[0] === "X") return undefined;
  return { pid, group: Number(fields[2]), started: fields[19] ?? "" };
}

export function isAlive({ pid, started }: ProcessId): boolean {
  return processState(pid)?.started === started;
}

export function bootId(): string {
  return readProc("/proc/sys/kernel/random/boot_id")?.trim() ?? "";
}

export function allProcesses(): readonly ProcessState[] {
  const names = process.platform === "linux" ? readdirSync("/proc") : [];
  return names.filter((name) => /^\d+$/.test(name)).flatMap((name) => processState(Number(name)) ?? []);
}

/** Whether the process was started with this variable. False when it may not be looked at. */
export function hasVariable(pid: number, variable: string): boolean {
  return readProc(`/proc/${pid}/environ`)?.split("\0").includes(variable) ?? false;
}

function readProc(path: string): string | undefined {
  try {
    return readFileSync(path, "latin1");
  } catch (cause) {
    if (["ENOENT", "ESRCH", "EACCES", "EPERM"].includes(codeOf(cause))) return undefined;
    throw cause;
  }
}

export function signalGroup(group: number, signal: NodeJS.Signals): void {
  signalProcess(-group, signal);
}

/** A process that has ended needs no signal; one that runs as another user, as with `sudo`, takes none from us. */
export function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (cause) {
    if (codeOf(cause) !== "ESRCH" && codeOf(cause) !== "EPERM") throw cause;
  }
}
