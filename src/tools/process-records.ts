/**
 * Which process group runs for which exec, on disk, so that a client that comes back after a crash can stop what is
 * left of it (C2).
 *
 * The record is written before the command begins: the command waits at a gate until then. A record whose owner still lives
 * is not a left-over: another client of this machine runs it.
 */
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { codeOf } from "./faults.ts";
import {
  allProcesses,
  bootId,
  hasVariable,
  isAlive,
  type ProcessId,
  processState,
  signalGroup,
  signalProcess,
} from "./processes.ts";

interface ProcessRecord {
  readonly boot: string;
  readonly owner: ProcessId;
  /** The leader of the group; the group has its number. */
  readonly leader: ProcessId;
}

/** Names a run: the hash of the request, which holds the exec id and the arguments. */
export function markOf(args: Uint8Array): string {
  return createHash("sha256").update(args).digest("hex");
}

/** In the environment of every process of the run, so that it is known even when the leader is gone. */
export const MARK_VARIABLE = "HOLDFAST_EXEC";

export class ProcessRecords {
  readonly #directory: string;

  constructor(stateDirectory: string) {
    this.#directory = join(stateDirectory, "running");
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 });
  }

  /** No sync: a crash of the machine takes the processes with it. */
  remember(mark: string, pid: number): void {
    const leader = processState(pid) ?? { pid, started: "" };
    const owner = processState(process.pid) ?? { pid: process.pid, started: "" };
    const record: ProcessRecord = { boot: bootId(), owner, leader };
    writeFileSync(this.#file(mark, pid), JSON.stringify(record), { mode: 0o600 });
  }

  forget(mark: string, pid: number): void {
    try {
      unlinkSync(this.#file(mark, pid));
    } catch (cause) {
      if (codeOf(cause) !== "ENOENT") throw cause;
    }
  }

  #file(mark: string, pid: number): string {
    return join(this.#directory, `${mark}-${pid}.json`);
  }

  /** Kills what is left of earlier runs; no gentle end, because nobody will wait for it. */
  stopLeftover(mark: string): void {
    for (const name of readdirSync(this.#directory)) {
      if (!name.startsWith(`${mark}-`)) continue;
      const file = join(this.#directory, name);
      const record = readRecord(file);
      if (record !== undefined && isOfAnother(record)) continue;
      if (record?.boot === bootId()) stopGroup(record.leader, mark);
      unlinkSync(file);
    }
  }
}

function isOfAnother({ boot, owner }: ProcessRecord): boolean {
  return boot === bootId() && owner.pid !== process.pid && isAlive(owner);
}

function stopGroup(leader: ProcessId, mark: string): void {
  const marked = allProcesses().filter(({ pid }) => hasVariable(pid, `${MARK_VARIABLE}=${mark}`));
  if (isAlive(leader) || marked.some(({ group }) => group === leader.pid)) signalGroup(leader.pid, "SIGKILL");
  for (const { pid } of marked) signalProcess(pid, "SIGKILL");
}

/** Undefined when the crash cut it off: then the command never began. */
function readRecord(file: string): ProcessRecord | undefined {
  let json: unknown;
  try {
    json = JSON.parse(readFileSync(file, "utf8"));
  } catch (cause) {
    if (cause instanceof SyntaxError) return undefined;
    throw cause;
  }
  const { boot, owner, leader } = fieldsOf(json);
  const [ownerId, leaderId] = [processIdOf(owner), processIdOf(leader)];
  if (typeof boot !== "string" || ownerId === undefined || leaderId === undefined) return undefined;
  return { boot, owner: ownerId, leader: leaderId };
}

function processIdOf(value: unknown): ProcessId | undefined {
  const { pid, started } = fieldsOf(value);
  return typeof pid === "number" && pid > 1 && typeof started === "string" ? { pid, started } : undefined;
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}
