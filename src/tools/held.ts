/**
 * Files and directories held by descriptor, and what can be reached from one.
 *
 * Node has no `openat`. On Linux `/proc/self/fd/<descriptor>/<name>` is the same: the kernel continues from the open
 * directory itself, so no process can put a symlink in the way of what was walked already. Opening with O_PATH takes
 * hold of a thing without opening it, so a fifo does not block and a device does nothing.
 *
 * macOS has no such path. There every open goes by the physical path with O_NOFOLLOW_ANY, which refuses a symlink
 * anywhere in it; what is renamed, made or deleted by path keeps a small race.
 */
import {
  closeSync,
  constants,
  fstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  type Dirent,
  type Stats,
} from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { codeOf, fault } from "./faults.ts";

const IS_LINUX = process.platform === "linux";
/** Not among Node's constants. */
const O_PATH = 0o10000000;
const O_NOFOLLOW_ANY = 0x20000000;

/** Linux: take hold, do not open. macOS: open for reading, without waiting for the other end of a fifo. */
const HOLD = IS_LINUX ? O_PATH | constants.O_NOFOLLOW : constants.O_NONBLOCK | O_NOFOLLOW_ANY;

/** Let go at its end, or by `letGo`. */
export interface Held extends Disposable {
  readonly fd: number;
  /** Absolute, free of symlinks when it was walked. For people, and for macOS. */
  readonly path: string;
  readonly stats: Stats;
}

export type Entry =
  | { readonly kind: "held"; readonly held: Held }
  | { readonly kind: "link"; readonly target: string }
  | { readonly kind: "missing" };

export function holdDirectory(path: string): Held {
  return heldBy(openSync(path, (IS_LINUX ? O_PATH : 0) | constants.O_DIRECTORY), path);
}

/** Also for a thread: the same descriptor, seen from there. */
export function heldBy(fd: number, path: string): Held {
  return { fd, path, stats: fstatSync(fd), [Symbol.dispose]: () => closeSync(fd) };
}

/** How often a name may change between a symlink and something else under our eyes. */
const LOOKS_MAX = 20;

export function holdEntry(dir: Held, name: string): Entry {
  for (let looks = 0; looks < LOOKS_MAX; looks++) {
    const entry = lookAt(dir, name);
    if (entry !== undefined) return entry;
  }
  throw fault("EAGAIN", `${name} keeps changing; try again`);
}

/** Undefined: it was a symlink and is none any more. */
function lookAt(dir: Held, name: string): Entry | undefined {
  const path = entryPath(dir, name);
  try {
    const held = heldBy(openSync(path, HOLD), `${dir.path}/${name}`);
    if (!held.stats.isSymbolicLink()) return { kind: "held", held };
    letGo(held);
  } catch (cause) {
    if (codeOf(cause) === "ENOENT") return { kind: "missing" };
    if (IS_LINUX || codeOf(cause) !== "ELOOP") throw cause;
  }
  try {
    return { kind: "link", target: readlinkSync(path) };
  } catch (cause) {
    if (codeOf(cause) === "EINVAL") return undefined;
    if (codeOf(cause) === "ENOENT") return { kind: "missing" };
    throw cause;
  }
}

/** For calls on a name within a held directory that do not follow it: mkdir, rename, unlink, link, lstat, O_EXCL. */
export function entryPath(dir: Held, name: string): string {
  return `${selfPath(dir)}/${name}`;
}

/** The held thing itself, as a path. Also a working directory for a child: it is entered before the exec. */
export function selfPath(held: Held): string {
  return IS_LINUX ? `/proc/self/fd/${held.fd}` : held.path;
}

const READ = constants.O_RDONLY | constants.O_NONBLOCK | (IS_LINUX ? 0 : O_NOFOLLOW_ANY);

/** Opens what is held, which must be a plain file. `asked` names it in messages. */
export async function openHeldFile(held: Held, asked: string): Promise<FileHandle> {
  checkPlainFile(held.stats, asked);
  return open(selfPath(held), READ);
}

export function openHeldFileSync(held: Held, asked: string): number {
  checkPlainFile(held.stats, asked);
  return openSync(selfPath(held), READ);
}

export function readHeldFile(held: Held, asked: string): Buffer {
  const fd = openHeldFileSync(held, asked);
  try {
    return readFileSync(fd);
  } finally {
    closeSync(fd);
  }
}

export function checkPlainFile(stats: Stats, asked: string): void {
  if (stats.isDirectory()) throw fault("EISDIR", `${asked} is a directory`);
  if (!stats.isFile()) throw fault("EINVAL", `${asked} is no plain file but a device, fifo or socket`);
}

/** After a change of its names. What is held by O_PATH cannot be synced, so it is opened. */
export async function syncDirectory(held: Held): Promise<void> {
  await using handle = await open(selfPath(held), constants.O_RDONLY | constants.O_DIRECTORY);
  await handle.sync();
}

/** Sorted by name as bytes, so that every walk has the same order. */
export function entriesOf(dir: Held): Dirent[] {
  return readdirSync(selfPath(dir), { withFileTypes: true })
    .map((entry) => ({ entry, bytes: Buffer.from(entry.name) }))
    .toSorted((a, b) => Buffer.compare(a.bytes, b.bytes))
    .map(({ entry }) => entry);
}

export function letGo(held: Held): void {
  held[Symbol.dispose]();
}
