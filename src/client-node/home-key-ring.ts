/**
 * The older home keys of a scope, sealed under the newest, in the row of its check value.
 *
 *     scope/home_key_check   the newest key's check value, 32 bytes | the ring, sealed under that key
 *
 * A rotation is one write of that row. So no crash leaves a check value without its ring, and who starts with the newest key has all that are still wanted: nodes that share
 * the tables cannot have different rings. An older version takes the longer row for another key's, and refuses to start.
 *
 * Invariant: a home key that is not the newest opens nothing of this row.
 */
import * as z from "zod/mini";
import { HoldfastError } from "../protocol/errors.ts";
import {
  equalConstantTime,
  type HomeKeys,
  KEY_CHECK_BYTES,
  onlyHomeKey,
  type SealedLabel,
  type SyncSealing,
} from "../sealing/index.ts";
import { NO_ROW, type TableStore } from "../store/table-store.ts";
import { CHECK } from "./home-key.ts";

const LABEL: SealedLabel = {
  stream: `${CHECK.table}/${CHECK.key}`,
  direction: "journal",
  first: 0,
  count: 1,
  kind: "home keys",
};

const KEY = z.pipe(
  z.base64url(),
  z.transform((text) => new Uint8Array(Buffer.from(text, "base64url"))),
);
const RING = z.object({ keyNumber: z.int(), names: KEY, older: z.array(z.tuple([z.int(), KEY])) });

/** What the scope's newest home key opens; undefined for any other key. */
export async function homeKeysOf(
  tables: Pick<TableStore, "get">,
  sealing: SyncSealing,
  homeKey: Uint8Array,
): Promise<HomeKeys | undefined> {
  const row = (await tables.get(CHECK))?.value;
  if (row === undefined) return undefined;
  if (!equalConstantTime(row.subarray(0, KEY_CHECK_BYTES), sealing.keyCheck(homeKey))) return undefined;
  if (row.length === KEY_CHECK_BYTES) return onlyHomeKey(sealing, homeKey);
  const plain = sealing.homeSealer(homeKey).open(LABEL, row.subarray(KEY_CHECK_BYTES));
  const { keyNumber, names, older } = RING.parse(JSON.parse(Buffer.from(plain).toString()));
  return { homeKey, keyNumber, names, older: new Map(older) };
}

/** Makes `next` the scope's home key, with the newest `keepMax` of those before it in its ring. */
export async function rotateHomeKey(
  tables: TableStore,
  sealing: SyncSealing,
  { homeKey, keyNumber, names, older }: HomeKeys,
  next: Uint8Array,
  keepMax: number,
): Promise<HomeKeys> {
  const kept = [...older, [keyNumber, homeKey] as const].toSorted(([a], [b]) => b - a).slice(0, keepMax);
  const rotated: HomeKeys = { homeKey: next, keyNumber: keyNumber + 1, older: new Map(kept), names };
  const text = (key: Uint8Array): string => Buffer.from(key).toString("base64url");
  const ring: z.input<typeof RING> = {
    keyNumber: rotated.keyNumber,
    names: text(names),
    older: kept.map(([number, key]) => [number, text(key)]),
  };
  const sealed = sealing.homeSealer(next).seal(LABEL, Buffer.from(JSON.stringify(ring)));
  const version = (await tables.get(CHECK))?.version ?? NO_ROW;
  const before = await homeKeysOf(tables, sealing, homeKey);
  const row = Buffer.concat([sealing.keyCheck(next), sealed]);
  const written = before && (await tables.compareAndSwap(CHECK, version, row));
  if (written?.kind === "written") return rotated;
  throw new HoldfastError(
    "fenced",
    "another process has rotated the home key meanwhile. Nothing was changed here",
  );
}
