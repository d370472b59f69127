/**
 * The home key of a browser scope: made once, kept as a key that no script can read out.
 *
 * It lies in the same profile as what it seals, so this is obfuscated, not apart: it keeps journals
 * from being read by an attacker who copies records, not by one who has the profile. A script in the
 * page can use the key, but cannot carry it away.
 *
 * Two tabs that begin at the same time agree: the key is looked for and put in one transaction, and
 * transactions that change the database come one after the other, whichever tab they are from.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import { importHomeKey, KEY_BYTES, type WebKey } from "../../sealing/index.ts";
import { type BrowserDatabase, KEYS, outcome } from "./database.ts";

const NAME = "home";

interface BrowserHomeKey {
  readonly key: WebKey;
  /** It was made just now: the moment to say where it lies. */
  readonly isNew: boolean;
}

export async function browserHomeKey(database: BrowserDatabase): Promise<BrowserHomeKey> {
  const found = await database.read((transaction) => outcome(transaction.objectStore(KEYS).get(NAME)));
  if (found !== undefined) return { key: keyOf(found), isNew: false };
  // Made before the transaction: one that waits for anything but itself is over.
  const bytes = crypto.getRandomValues(new Uint8Array(KEY_BYTES));
  const key = await importHomeKey(bytes);
  bytes.fill(0);
  return database.change(async (transaction) => {
    const keys = transaction.objectStore(KEYS);
    const earlier = await outcome(keys.get(NAME));
    if (earlier !== undefined) return { key: keyOf(earlier), isNew: false };
    keys.add(key, NAME);
    return { key, isNew: true };
  });
}

function keyOf(found: unknown): WebKey {
  if (found instanceof CryptoKey) return found;
  throw new HoldfastError(
    "stream_failed",
    "the home key of this page's storage is damaged, and nothing sealed with it can be read: clear the storage",
  );
}
