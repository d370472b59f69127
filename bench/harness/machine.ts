/**
 * Where a run took place: ratios travel from machine to machine, the numbers beside them do not.
 */
import { execFileSync } from "node:child_process";
import { availableParallelism, cpus, loadavg, release, totalmem, type } from "node:os";
import { canPin } from "./peer.ts";

export interface Machine {
  readonly node: string;
  readonly system: string;
  readonly processor: string;
  readonly cores: number;
  readonly memoryGiB: number;
  /** Of the last minute, at the start: above 0 somebody else is using the machine. */
  readonly loadAverage: number;
  readonly pinned: boolean;
  readonly commit: string;
  readonly startedAt: string;
}

export function thisMachine(): Machine {
  return {
    node: process.version,
    system: `${type()} ${release()}`,
    processor: cpus()[0]?.model ?? "unknown",
    cores: availableParallelism(),
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    loadAverage: Math.round((loadavg()[0] ?? 0) * 100) / 100,
    pinned: canPin,
    commit: commitOf(),
    startedAt: new Date().toISOString(),
  };
}

function commitOf(): string {
  const git = (...args: string[]): string =>
    execFileSync("git", ["-C", import.meta.dirname, ...args], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    }).trim();
  try {
    return (
      git("rev-parse", "--short=12", "HEAD") + (git("status", "--porcelain") === "" ? "" : " with changes")
    );
  } catch {
    return "unknown";
  }
}
