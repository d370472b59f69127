/**
 * Writes a whole file in one step: readers and crashes see the old file or the new one, never a part.
 *
 * The content goes to a temporary file in the same directory, is synced, takes the old file's permissions, and is
 * renamed over it; then the directory is synced. "Only if there is none" is a hard link instead of the rename, which
 * fails when another process was first. "Only if it is still this one" is checked directly before the rename.
 */
import { createHash, hash } from "node:crypto";
import { constants, linkSync, renameSync, unlinkSync } from "node:fs";
import { open } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import type { ToolRun } from "../client/tools.ts";
import type { WriteArgs } from "../protocol/messages.ts";
import { codeOf, fault, throwIfAborted } from "./faults.ts";
import { checkPlainFile, entryPath, type Held, holdEntry, openHeldFile, syncDirectory } from "./held.ts";
import type { Jail, Place } from "./jail.ts";
import { bytesOf, type ResultMessage } from "./results.ts";

/** `mark` names the temporary file, so that `removeTemporary` finds it after a crash. */
export async function write(args: WriteArgs, mark: string, jail: Jail, run: ToolRun): Promise<ResultMessage> {
  const bytes = await bytesOf(args.content, run);
  throwIfAborted(run.signal);
  using place = jail.locate(args.path, { makeParents: true });
  const { directory } = place;
  if (place.held !== undefined) checkPlainFile(place.held.stats, args.path);
  const temporary = temporaryName(mark);
  await writeTemporary(directory, temporary, bytes, place.held);
  try {
    await checkExpected(place, args.expectedSha256, args.path);
    throwIfAborted(run.signal);
    moveIntoPlace(directory, temporary, place.name, isOnlyIfNone(args.expectedSha256), args.path);
  } catch (cause) {
    unlinkSync(entryPath(directory, temporary));
    throw cause;
  }
  await syncDirectory(directory);
  const sha256 = hash("sha256", bytes, "buffer");
  const value = { bytesWritten: bytes.length, created: place.held === undefined, sha256 };
  return { case: "writeResult", value: { result: { case: "success", value } } };
}

/** After a crash in the middle of a write: the temporary file is all that can be left. */
export function removeTemporary(path: string, mark: string, jail: Jail): void {
  using place = jail.locate(path);
  removeIfThere(entryPath(place.directory, temporaryName(mark)));
}

function temporaryName(mark: string): string {
  return `.holdfast-${mark.slice(0, 32)}.tmp`;
}

async function writeTemporary(
  directory: Held,
  name: string,
  bytes: Uint8Array,
  old: Held | undefined,
): Promise<void> {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  const path = entryPath(directory, name);
  // A new file gets what the user's umask leaves; one that replaces another is private until it has its mode.
  const mode = old === undefined ? 0o666 : 0o600;
  removeIfThere(path);
  await using file = await open(path, flags, mode);
  try {
    await file.writeFile(bytes);
    if (old !== undefined) {
      const { uid, gid } = await file.stat();
      if (uid !== old.stats.uid || gid !== old.stats.gid)
        await file.chown(old.stats.uid, old.stats.gid).catch(ignoreDenied);
      // Not the bits that lend the owner's rights: they were given to the old content, by a person who knew it.
      await file.chmod(old.stats.mode & 0o777);
    }
    await file.sync();
  } catch (cause) {
    removeIfThere(path);
    throw cause;
  }
}

/** Only root gives files away; the content is what matters. */
function ignoreDenied(cause: unknown): void {
  if (codeOf(cause) !== "EPERM") throw cause;
}

/** Of an earlier run of this exec. */
function removeIfThere(path: string): void {
  try {
    unlinkSync(path);
  } catch (cause) {
    if (codeOf(cause) !== "ENOENT") throw cause;
  }
}

export function isOnlyIfNone(expected: Uint8Array | undefined): boolean {
  return expected !== undefined && expected.length === 0;
}

/** Looks at what the name means now, not at what it meant when it was located. */
export async function checkExpected(
  place: Place,
  expected: Uint8Array | undefined,
  path: string,
): Promise<void> {
  if (expected === undefined) return;
  const now = holdEntry(place.directory, place.name);
  using held = now.kind === "held" ? now.held : undefined;
  if (isOnlyIfNone(expected)) {
    if (now.kind !== "missing") throw existsAlready(path);
    return;
  }
  if (held === undefined) throw fault("ESTALE", `${path} is gone since it was read; read it again`);
  const digest = await hashOf(held, path);
  if (!digest.equals(expected)) throw fault("ESTALE", `${path} changed since it was read; read it again`);
}

function existsAlready(path: string): Error {
  return fault("EEXIST", `${path} exists already`);
}

async function hashOf(held: Held, path: string): Promise<Buffer> {
  const handle = await openHeldFile(held, path);
  const digest = createHash("sha256");
  // The stream closes the handle when it ends or fails.
  await pipeline(handle.createReadStream(), digest);
  return digest.digest();
}

function moveIntoPlace(directory: Held, from: string, to: string, onlyIfNone: boolean, path: string): void {
  if (!onlyIfNone) {
    renameSync(entryPath(directory, from), entryPath(directory, to));
    return;
  }
  try {
    linkSync(entryPath(directory, from), entryPath(directory, to));
  } catch (cause) {
    throw codeOf(cause) === "EEXIST" ? existsAlready(path) : cause;
  }
  unlinkSync(entryPath(directory, from));
}
