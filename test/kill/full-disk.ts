/**
 * A disk that takes no more writes under one process: its files may not grow beyond the first byte.
 *
 * The limit of the system on file sizes, set from outside on a process that runs, and taken back likewise. It needs no root, and the
 * process sees what it sees on a full disk: a write that fails.
 */
import { spawnSync } from "node:child_process";

/** Why it cannot be done on this machine; undefined when it can. */
export function obstacle(): string | undefined {
  return spawnSync("prlimit", ["--version"]).status === 0 ? undefined : "it needs prlimit, of Linux";
}

export function fillDisk(pid: number): void {
  limit(pid, "1");
}

export function makeRoom(pid: number): void {
  limit(pid, "unlimited");
}

/** Only the soft limit: what the process itself could raise again. */
function limit(pid: number, soft: string): void {
  const { status, stderr } = spawnSync("prlimit", [`--pid=${pid}`, `--fsize=${soft}:`], { encoding: "utf8" });
  if (status !== 0) throw new Error(`prlimit failed: ${stderr}`);
}
