/**
 * The home key of a scope: the one secret from which its stream keys are derived and under which its
 * journals are sealed.
 *
 * It is given (option or `HOLDFAST_HOME_KEY`), or kept by the system's keyring, or in a file apart
 * from the data; the last is said aloud, once. The database keeps a check value of the key and an id by
 * which keyring and file know it, so a directory that was moved finds its key again. Behind the check value of a
 * rotated key lie the older ones (`home-key-ring.ts`).
 *
 * Invariant: a database that has a check value is never used with another key, and no key is made for
 * it: that would leave its journals unreadable for ever while looking healthy.
 */
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { HoldfastError } from "../protocol/errors.ts";
import { equalConstantTime, KEY_BYTES, KEY_CHECK_BYTES, type SyncSealing } from "../sealing/index.ts";
import type { FileLock } from "../store/sqlite/lock.ts";
import { NO_ROW, type TableStore } from "../store/table-store.ts";
import type { KeyPlace } from "./key-places.ts";
import { tryLock } from "./presence.ts";
import { makePrivateFile } from "./private-files.ts";

const TABLE = "scope";
const ID = { table: TABLE, key: "id" } as const;
/** The check value, and what `home-key-ring.ts` keeps behind it. */
export const CHECK = { table: TABLE, key: "home_key_check" } as const;
const SCOPE_ID = /^[0-9a-f]{32}$/;

/** Making a key takes milliseconds, asking a keyring at most some seconds. */
const LOCK_WAIT_MS = 30_000;
const LOCK_POLL_MS = 10;

export interface HomeKeyOptions {
  readonly tables: TableStore;
  readonly sealing: SyncSealing;
  /** Named in messages. */
  readonly directory: string;
  /** The tables are those of several nodes, which have one home key. */
  readonly isShared?: boolean | undefined;
  readonly given: Uint8Array | undefined;
  /** Where a key may be kept, the best first; by the scope's id. */
  readonly places: (scopeId: string) => readonly KeyPlace[];
  readonly keyLock: string;
}

/** The scope's home key; a new one when the scope is new. */
export async function resolveHomeKey(options: HomeKeyOptions): Promise<Uint8Array> {
  const { tables, given } = options;
  if (given !== undefined) {
    await confirm(options, given);
    return given;
  }
  const places = options.places(await scopeId(tables));
  const check = await readCheck(tables);
  if (check !== undefined) return findKept(options, places, check);
  const lock = await waitForLock(options.keyLock);
  try {
    return await makeOrFind(options, places);
  } finally {
    lock.release();
  }
}

/** Under the lock: of several processes that start at once, one makes the key and the others find it. */
async function makeOrFind(options: HomeKeyOptions, places: readonly KeyPlace[]): Promise<Uint8Array> {
  const check = await readCheck(options.tables);
  if (check !== undefined) return findKept(options, places, check);
  // A process that died here before may have left a key and no check value.
  const { homeKey = await keepNew(places) } = await search(places, () => true);
  await confirm(options, homeKey);
  return homeKey;
}

/** The first place that takes it keeps it. One that may or may not have taken it does no harm: the key is the same. */
async function keepNew(places: readonly KeyPlace[]): Promise<Uint8Array> {
  const homeKey = new Uint8Array(randomBytes(KEY_BYTES));
  const reasons: string[] = [];
  for (const place of places) {
    const kept = await place.write(homeKey);
    if (kept.kind === "written") return homeKey;
    reasons.push(`${place.name}: ${kept.reason}`);
  }
  throw new HoldfastError(
    "unavailable",
    `the home key can be kept nowhere; set HOLDFAST_HOME_KEY to 32 random bytes in base64url (${reasons.join("; ")})`,
  );
}

interface Search {
  readonly homeKey: Uint8Array | undefined;
  /** A key was found that is not the right one. */
  readonly sawWrong: boolean;
  /** The places that could not be asked, and why. */
  readonly unavailable: readonly string[];
}

/** The first key that is right. A file answers sooner than a keyring, so the last place is asked first. */
async function search(
  places: readonly KeyPlace[],
  isRight: (homeKey: Uint8Array) => boolean,
): Promise<Search> {
  const unavailable: string[] = [];
  let sawWrong = false;
  for (const place of places.toReversed()) {
    const answer = await place.read();
    if (answer.kind === "found" && isRight(answer.homeKey)) {
      return { homeKey: answer.homeKey, sawWrong, unavailable };
    }
    sawWrong ||= answer.kind === "found";
    if (answer.kind === "unavailable") unavailable.push(`${place.name}: ${answer.reason}`);
  }
  return { homeKey: undefined, sawWrong, unavailable };
}

async function findKept(
  { sealing, directory, isShared }: HomeKeyOptions,
  places: readonly KeyPlace[],
  check: Uint8Array,
): Promise<Uint8Array> {
  const isRight = (homeKey: Uint8Array): boolean => equalConstantTime(sealing.keyCheck(homeKey), check);
  const { homeKey, sawWrong, unavailable } = await search(places, isRight);
  if (homeKey !== undefined) return homeKey;
  if (isShared === true) throw otherKey(sawWrong);
  if (sawWrong) throw wrongKey(directory);
  const asked = places.map(({ name }) => name).join(", ");
  const why = unavailable.length === 0 ? "" : ` (${unavailable.join("; ")})`;
  throw new HoldfastError(
    "stream_failed",
    `the home key of ${directory} is missing: it is not in ${asked}${why}. Bring it back or set HOLDFAST_HOME_KEY; ` +
      "without it the journals there cannot be read, and only removing the directory helps. Nothing was changed",
  );
}

/** Compares the key with the check value, or makes it the one that counts. */
async function confirm(
  { tables, sealing, directory, isShared }: HomeKeyOptions,
  homeKey: Uint8Array,
): Promise<void> {
  const own = sealing.keyCheck(homeKey);
  const known = await readCheck(tables);
  if (known === undefined) await tables.compareAndSwap(CHECK, NO_ROW, own);
  const check = known ?? (await readCheck(tables));
  if (check !== undefined && equalConstantTime(own, check)) return;
  throw isShared === true ? otherKey(true) : wrongKey(directory);
}

function otherKey(hasOne: boolean): HoldfastError {
  return new HoldfastError(
    "stream_failed",
    `${hasOne ? "this node has another home key than" : "this node has no home key of"} the nodes that share this PostgreSQL: set HOLDFAST_HOME_KEY to the same 32 bytes in base64url on all of them, ` +
      "or copy the file of the first node's home key; if it was rotated, the newest. Nothing was changed",
  );
}

function wrongKey(directory: string): HoldfastError {
  return new HoldfastError(
    "stream_failed",
    `this is not the home key of ${directory}: use the one that its journals were written with (the newest, if it was rotated), or another directory. Nothing was changed`,
  );
}

async function readCheck(tables: TableStore): Promise<Uint8Array | undefined> {
  return (await tables.get(CHECK))?.value.subarray(0, KEY_CHECK_BYTES);
}

/** Drawn once per database, so that it may be moved; becomes part of a path, so it is looked at closely. */
async function scopeId(tables: TableStore): Promise<string> {
  const known = await tables.get(ID);
  if (known === undefined)
    await tables.compareAndSwap(ID, NO_ROW, Buffer.from(randomBytes(16).toString("hex")));
  const id = await keptScopeId(tables);
  if (id === undefined) throw new HoldfastError("stream_failed", "the id of this scope is damaged");
  return id;
}

/** Undefined when the database has none, or one that is none. */
export async function keptScopeId(tables: Pick<TableStore, "get">): Promise<string | undefined> {
  const id = Buffer.from((await tables.get(ID))?.value ?? []).toString("utf8");
  return isScopeId(id) ? id : undefined;
}

export function isScopeId(text: string): boolean {
  return SCOPE_ID.test(text);
}

async function waitForLock(path: string): Promise<FileLock> {
  makePrivateFile(path);
  for (let waitedMs = 0; waitedMs < LOCK_WAIT_MS; waitedMs += LOCK_POLL_MS) {
    const lock = tryLock(path);
    if (lock !== undefined) return lock;
    await sleep(LOCK_POLL_MS);
  }
  throw new HoldfastError("unavailable", `another process has been making a home key for too long: ${path}`);
}
