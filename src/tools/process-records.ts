/**
 * Which process group runs for which exec, on disk, so that a client that starts after a crash can stop what is
 * left of it (C2).
 *
 * The record is written before the command begins: the command waits at a gate until then. A record whose owner still lives
 * is not a left-over: another client of this machine runs it.
 */
import { hash, randomBytes } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod/mini";
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

const PROCESS = z.object({ pid: z.number().check(z.gt(1)), started: z.string() });
/** The leader is that of the group, which has its number. */
const RECORD = z.object({ boot: z.string(), owner: PROCESS, leader: PROCESS });
type ProcessRecord = z.output<typeof RECORD>;

/** Names what is run: the hash of the request, which holds the exec id and the arguments. */
export function markOf(args: Uint8Array): string {
  return hash("sha256", args);
}

/** In the environment of every process of the run, so that it is known even when the leader is gone. */
export const RUN_VARIABLE = "HOLDFAST_EXEC";

export type ProcessRecords = ReturnType<typeof processRecords>;

export function processRecords(stateDirectory: string) {
  const directory = join(stateDirectory, "running");
  mkdirSync(directory, { recursive: true, mode: 0o700 });

  return {
    newRun(mark: string) {
      const id = `${mark}-${randomBytes(RUN_ID_BYTES).toString("hex")}`;
      const file = join(directory, `${id}${SUFFIX}`);
      let leader: ProcessId | undefined;
      return {
        /** No other run has it, also when another conversation runs the same: its processes are not ours to stop. */
        id,
        /** To be called before the command begins. No sync: a crash of the machine takes the processes with it. */
        begins: (pid: number): void => {
          leader = processState(pid) ?? { pid, started: "" };
          const owner = processState(process.pid) ?? { pid: process.pid, started: "" };
          const record: ProcessRecord = { boot: bootId(), owner, leader };
          // Whole or not there: another process may be looking.
          writeFileSync(`${file}.new`, JSON.stringify(record), { mode: 0o600 });
          renameSync(`${file}.new`, file);
        },
        /** Kills all that it started and that still runs; no gentle end, because no program will wait for it. */
        stop: (): void => {
          if (leader !== undefined) stopGroup(leader, id);
        },
        /** Forgets it. */
        ends: (): void => rmSync(file, { force: true }),
      };
    },
    /** Kills what is left of earlier runs whose client is gone. */
    stopLeftover(mark: string): void {
      for (const name of readdirSync(directory)) {
        if (!name.startsWith(`${mark}-`) || !name.endsWith(SUFFIX)) continue;
        const file = join(directory, name);
        const record = readRecord(file);
        if (record?.boot === bootId()) {
          if (isAlive(record.owner)) continue;
          stopGroup(record.leader, name.slice(0, -SUFFIX.length));
        }
        rmSync(file, { force: true });
      }
    },
  };
}

function stopGroup(leader: ProcessId, run: string): void {
  const marked = allProcesses().filter(({ pid }) => hasVariable(pid, `${RUN_VARIABLE}=${run}`));
  if (isAlive(leader) || marked.some(({ group }) => group === leader.pid)) signalGroup(leader.pid, "SIGKILL");
  for (const { pid } of marked) signalProcess(pid, "SIGKILL");
}

/** Undefined when the crash cut it off: then the command never began. */
function readRecord(file: string): ProcessRecord | undefined {
  try {
    return z.safeParse(RECORD, JSON.parse(readFileSync(file, "utf8"))).data;
  } catch (cause) {
    // It ended while we looked.
    if (cause instanceof SyntaxError || codeOf(cause) === "ENOENT") return undefined;
    throw cause;
  }
}
