/**
 * Files and folders that only their user may read, made so that a crash or another process at the same
 * moment leaves a whole one or none.
 */
import {
  chmodSync,
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  fsyncSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  type Stats,
  writeFileSync,
} from "node:fs";
import { randomBytes } from "node:crypto";
import { dirname } from "node:path";
import { HoldfastError, messageOf } from "../protocol/errors.ts";

const DIRECTORY_MODE = 0o700;
const FILE_MODE = 0o600;
const OTHERS = 0o077;
const isWindows = process.platform === "win32";

/** For its user alone when it is made here; one that is there is left as it is. */
export function makeDirectory(path: string): void {
  try {
    mkdirSync(path, { recursive: true, mode: DIRECTORY_MODE });
  } catch (cause) {
    throw unusable(path, cause);
  }
}

/** A link is refused: a workspace that another user made could lead anywhere by one. */
export function makePrivateDirectory(path: string): void {
  makeDirectory(path);
  const found = lstatSync(path);
  if (!found.isDirectory()) {
    throw new HoldfastError(
      "unavailable",
      `${path} is not a directory of its own; remove it or name another`,
    );
  }
  if (!isOpenToOthers(found)) return;
  try {
    chmodSync(path, DIRECTORY_MODE);
  } catch (cause) {
    throw unusable(path, cause);
  }
}

function unusable(path: string, cause: unknown): HoldfastError {
  const reason = messageOf(cause);
  return new HoldfastError(
    "unavailable",
    `the directory ${path} cannot be made or is not yours (${reason}); name one that you may write to`,
    { cause },
  );
}

/**
 * An empty file, unless there is one already. One that is there is not even opened: closing it would give
 * back the locks that this process holds on it.
 */
export function makePrivateFile(path: string): void {
  try {
    closeSync(openSync(path, "wx", FILE_MODE));
  } catch (error) {
    if (!isCode(error, "EEXIST")) throw error;
  }
}

/**
 * Writes a whole, synced file where there is none. False when there is one, which is left as it is.
 */
export function writeOnce(path: string, text: string): boolean {
  const draft = `${path}.${randomBytes(8).toString("hex")}.draft`;
  let file: number;
  try {
    file = openSync(draft, "wx", FILE_MODE);
  } catch (cause) {
    throw unusable(dirname(path), cause);
  }
  try {
    writeFileSync(file, text);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  try {
    linkSync(draft, path);
    return true;
  } catch (error) {
    if (isCode(error, "EEXIST")) return false;
    throw error;
  } finally {
    rmSync(draft, { force: true });
    syncDirectory(dirname(path));
  }
}

/** In place of what is there, if anything is. */
export function moveOver(from: string, to: string): void {
  renameSync(from, to);
  syncDirectory(dirname(to));
}

interface PrivateText {
  readonly text: string;
  /** Others could read it until now. */
  readonly wasOpen: boolean;
}

/** Undefined when there is no such file. Closes a file to others that was open to them. */
export function readPrivateFile(path: string): PrivateText | undefined {
  let file: number;
  try {
    file = openSync(path, constants.O_RDONLY | (isWindows ? 0 : constants.O_NOFOLLOW));
  } catch (error) {
    if (isCode(error, "ENOENT") || isCode(error, "ENOTDIR")) return undefined;
    throw new HoldfastError("unavailable", `${path} cannot be read; check whose it is`, { cause: error });
  }
  try {
    const found = fstatSync(file);
    checkOwner(path, found);
    const wasOpen = isOpenToOthers(found);
    if (wasOpen) fchmodSync(file, FILE_MODE);
    return { text: readFileSync(file, "utf8"), wasOpen };
  } finally {
    closeSync(file);
  }
}

/** If another user owns the file, that user can read and change it. */
function checkOwner(path: string, { uid }: Stats): void {
  const self = process.getuid?.();
  if (self === undefined || self === 0 || uid === self) return;
  throw new HoldfastError("unavailable", `${path} belongs to another user; remove it or take it over`);
}

function isOpenToOthers({ mode }: Stats): boolean {
  return !isWindows && (mode & OTHERS) !== 0;
}

/** A file's name is durable once its folder is; Windows has no such call. */
function syncDirectory(path: string): void {
  if (isWindows) return;
  const directory = openSync(path, "r");
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
