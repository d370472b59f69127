/**
 * One server at a time on a data directory: what `holdfast serve` does about another that is there.
 *
 * A server that a chat has started in the background makes room for one that a person starts: it stops in order, and its
 * clients follow to the new one. Every other holder is named, with its process and its address, and stays.
 *
 * A start by a person holds the lock of starting until it answers, so that no chat starts a server in the gap.
 */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { tryLock } from "../client-node/presence.ts";
import type { HoldfastError } from "../protocol/errors.ts";
import type { FileLock } from "../store/sqlite/lock.ts";
import { lockPathOf } from "../store/sqlite/database.ts";
import { askForRoom, findServer, type ServerSeen } from "./control-client.ts";
import { START_LOCK_FILE } from "../node/data-dir.ts";
import { databasePath } from "./database-path.ts";
import { failure } from "../node/failures.ts";

interface ClaimOptions {
  readonly dataDir: string;
  /** Started by a chat, which holds the lock of starting and wants whichever server comes first. */
  readonly isBackground: boolean;
  /** A line for the person who waits. */
  readonly note: (line: string) => void;
}

/** What to do about the server that was seen. */
export type Claim =
  | { readonly kind: "take" }
  | { readonly kind: "ask_for_room"; readonly line: string }
  | { readonly kind: "refuse"; readonly error: HoldfastError };

const POLL_MS = 50;
/** A server that stops lets its clients finish first. */
const FREE_MS_MAX = 15_000;
/** Until then a person does not wonder. */
const NOTE_MS = 1_000;

/** Resolves when the database can be opened, with what to release once this server answers; rejects with the holder's name. */
export async function claimDataDir(options: ClaimOptions): Promise<FileLock> {
  const starting = options.isBackground ? { release: () => undefined } : await whenStartIsOurs(options);
  try {
    await whenFree(options);
    return starting;
  } catch (error) {
    starting.release();
    throw error;
  }
}

/** For a server that a person starts. */
export function claimOn(dataDir: string, seen: ServerSeen): Claim {
  if (seen.kind !== "running") return { kind: "take" };
  const { url, pid, endsWhenIdle } = seen.about;
  if (!endsWhenIdle) return { kind: "refuse", error: inUse(dataDir, url, pid) };
  const line = `A chat has started a server here in the background (process ${pid}, ${url}): it makes room, and its clients follow.`;
  return { kind: "ask_for_room", line };
}

async function whenStartIsOurs({ dataDir, note }: ClaimOptions): Promise<FileLock> {
  let lock: FileLock | undefined;
  try {
    let asked = "";
    for (let waitedMs = 0; ; waitedMs += POLL_MS) {
      const claim = claimOn(dataDir, await findServer(dataDir));
      if (claim.kind === "refuse") throw claim.error;
      // First the lock: a chat whose server makes room looks for another at once, and would start one.
      lock ??= tryLock(join(dataDir, START_LOCK_FILE));
      if (claim.kind === "ask_for_room" && claim.line !== asked && lock !== undefined) {
        asked = claim.line;
        note(claim.line);
        await askForRoom(dataDir);
      }
      if (claim.kind === "take" && lock !== undefined) return lock;
      if (waitedMs === NOTE_MS) note("Waiting for another process that starts or stops a server here ...");
      await sleep(POLL_MS);
    }
  } catch (error) {
    lock?.release();
    throw error;
  }
}

/** This only tries the lock; opening the database takes it. */
async function whenFree({ dataDir, note }: ClaimOptions): Promise<void> {
  const path = lockPathOf(databasePath(dataDir));
  for (let waitedMs = 0; ; waitedMs += POLL_MS) {
    const lock = tryLock(path);
    lock?.release();
    if (lock !== undefined) return;
    const refusal = refusalOf(dataDir, await findServer(dataDir));
    if (refusal !== undefined) throw refusal;
    if (waitedMs >= FREE_MS_MAX) throw heldBy(dataDir, "another process, which does not say who it is");
    if (waitedMs === NOTE_MS) note("Waiting for the process that uses the data directory to end ...");
    await sleep(POLL_MS);
  }
}

/** Undefined for a holder that may be about to end: a server that stops, or a command. */
function refusalOf(dataDir: string, seen: ServerSeen): HoldfastError | undefined {
  switch (seen.kind) {
    case "running":
      return inUse(dataDir, seen.about.url, seen.about.pid);
    case "silent":
      return heldBy(dataDir, `the server at ${seen.url} (process ${seen.pid}), which does not answer`);
    case "died":
    case "none":
      return undefined;
  }
}

function inUse(dataDir: string, url: string, pid: number): HoldfastError {
  return heldBy(dataDir, `the server at ${url} (process ${pid})`);
}

function heldBy(dataDir: string, holder: string): HoldfastError {
  return failure(
    `the data directory ${dataDir} is in use by ${holder}; stop it, or choose another with --data-dir`,
  );
}
