/**
 * Which process group runs for which exec, on disk, so that a client that comes back after a crash can stop what is
 * left of it (C2).
 *
 * The record is written before the command begins: the command waits at a gate until then. A record whose owner still lives
 * is not a left-over: another client of this machine runs it.
 */
import { createHash, randomBytes } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
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

const RUN_ID_BYTES = 8;
const SUFFIX = ".json";

interface ProcessRecord {
  readonly boot: string;
  readonly owner: ProcessId;
  /** The leader of the group; the group has its number. */
  readonly leader: ProcessId;
}

/** Names what is run: the hash of the request, which holds the exec id and the arguments. */
export function markOf(args: Uint8Array): string {
  return createHash("sha256").update(args).digest("hex");
}

/** In the environment of every process of the run, so that it is known even when the leader is gone. */
export const RUN_VARIABLE = "HOLDFAST_EXEC";

/** One run of a command. */
export interface RecordedRun {
  /** No other run has it, also when another conversation runs the same: its processes are not ours to stop. */
  readonly id: string;
  /** To be called before the command begins. No sync: a crash of the machine takes the processes with it. */
  begins(pid: number): void;
  /** Kills all that it started and that still runs; no gentle end, because nobody will wait for it. */
  stop(): void;
  /** Forgets it. */
  ends(): void;
}

export class ProcessRecords {
  readonly #directory: string;

  constructor(stateDirectory: string) {
    this.#directory = join(stateDirectory, "running");
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 });
  }

  newRun(mark: string): RecordedRun {
    const id = `${mark}-${randomBytes(RUN_ID_BYTES).toString("hex")}`;
    const file = join(this.#directory, `${id}${SUFFIX}`);
    let leader: ProcessId | undefined;
    return {
      id,
      begins: (pid) => {
        leader = processState(pid) ?? { pid, started: "" };
        const owner = processState(process.pid) ?? { pid: process.pid, started: "" };
        const record: ProcessRecord = { boot: bootId(), owner, leader };
        // Whole or not there: somebody may be looking.
        writeFileSync(`${file}.new`, JSON.stringify(record), { mode: 0o600 });
        renameSync(`${file}.new`, file);
      },
      stop: () => {
        if (leader !== undefined) stopGroup(leader, id);
      },
      ends: () => rmSync(file, { force: true }),
    };
  }

  /** Kills what is left of earlier runs whose client is gone. */
  stopLeftover(mark: string): void {
    for (const name of readdirSync(this.#directory)) {
      if (!name.startsWith(`${mark}-`) || !name.endsWith(SUFFIX)) continue;
      const file = join(this.#directory, name);
      const record = readRecord(file);
      if (record?.boot === bootId()) {
        if (isAlive(record.owner)) continue;
        stopGroup(record.leader, name.slice(0, -SUFFIX.length));
      }
      rmSync(file, { force: true });
    }
  }
}

function stopGroup(leader: ProcessId, run: string): void {
  const marked = allProcesses().filter(({ pid }) => hasVariable(pid, `${RUN_VARIABLE}=${run}`));
  if (isAlive(leader) || marked.some(({ group }) => group === leader.pid)) signalGroup(leader.pid, "SIGKILL");
  for (const { pid } of marked) signalProcess(pid, "SIGKILL");
}

/** Undefined when the crash cut it off: then the command never began. */
function readRecord(file: string): ProcessRecord | undefined {
  let json: unknown;
  try {
    json = JSON.parse(readFileSync(file, "utf8"));
  } catch (cause) {
    // It ended while we looked.
    if (cause instanceof SyntaxError || codeOf(cause) === "ENOENT") return undefined;
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
