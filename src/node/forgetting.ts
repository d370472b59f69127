/**
 * Deletes everything that a server keeps of one principal: API keys, gateway sessions, kept responses and conversations, the names of retries, streams with both logs, blobs.
 *
 * API keys are revoked first, so that nothing new begins; then what runs is stopped; then what there is goes, and the store takes it off its disk.
 *
 * Invariant: what a crash interrupts is done by the next call, which looks for each part anew. So what other parts are found by goes behind them: the rows of API keys behind
 * the counts, sessions behind their index, streams behind the gateway's rows.
 */
import type { ApiKeys, Spending } from "../server/index.ts";
import { checkPrincipal } from "../server/api-key-record.ts";
import { parsedJson } from "../protocol/fields.ts";
import type { BlobStore, TableWrite } from "../store/index.ts";
import type { ServerStore } from "./open-store.ts";

export interface ForgetWish {
  readonly principal: string;
  /** Counts only. */
  readonly isDryRun: boolean;
  /** They stay, and so do their labels and the principal's name in their rows. */
  readonly keepsApiKeys: boolean;
}

/** How much of each there was. */
export interface Forgotten {
  readonly streams: number;
  /** Of streams and conversations. */
  readonly blobs: number;
  /** Of sessions, kept responses and conversations, retries, counts. */
  readonly rows: number;
  readonly apiKeys: number;
}

export interface ForgetParts {
  readonly store: Pick<ServerStore, "streams" | "tables" | "blobs" | "shred">;
  readonly keys: Pick<ApiKeys, "list" | "revoke" | "removeOf">;
  readonly spending: Pick<Spending, "rowsOf">;
  /** Stops sessions, and deletes the gateway's rows. */
  readonly erase: (which: {
    readonly principal: string;
    readonly streamIds: ReadonlySet<string>;
    readonly isDryRun: boolean;
  }) => Promise<number>;
  /** Stops what runs. */
  readonly stop: (principal: string) => void;
}

const SPACES_AT_ONCE = 1_000;

export async function forgetPrincipal(parts: ForgetParts, wish: ForgetWish): Promise<Forgotten> {
  const { store, keys, spending, erase, stop } = parts;
  const { principal, isDryRun, keepsApiKeys } = wish;
  checkPrincipal(principal);
  const own = keepsApiKeys ? [] : (await keys.list()).filter((key) => key.principal === principal);
  if (!isDryRun) for (const { id } of own) await keys.revoke(id);
  const names = await store.streams.namesOf(principal);
  const streamIds = new Set(names.map(({ idempotencyKey }) => idempotencyKey));
  const sessionRows = await erase({ principal, streamIds, isDryRun });
  const counts = await spending.rowsOf(
    principal,
    own.map(({ id }) => id),
  );
  if (!isDryRun) {
    stop(principal);
    await store.streams.forget(principal);
    const gone = counts.map((at): TableWrite => ({ kind: "delete", ...at }));
    for (const write of gone) await store.tables.batch([write]);
    if (!keepsApiKeys) await keys.removeOf(principal);
  }
  let blobs = 0;
  for (const space of await spacesOf(store.blobs, principal))
    blobs += isDryRun ? await countIn(store.blobs, space) : await store.blobs.clear(space);
  if (!isDryRun) await store.shred();
  return { streams: names.length, blobs, rows: sessionRows + counts.length, apiKeys: own.length };
}

/** Those of its streams, and of its conversations. */
async function spacesOf(blobs: BlobStore, principal: string): Promise<readonly string[]> {
  const own: string[] = [];
  for (let after: string | undefined; ;) {
    const page = await blobs.listSpaces({ after, countMax: SPACES_AT_ONCE });
    own.push(...page.filter((space) => isOf(principal, space)));
    after = page.at(-1);
    if (page.length < SPACES_AT_ONCE || after === undefined) return own;
  }
}

function isOf(principal: string, space: string): boolean {
  const name = parsedJson(space);
  if (!Array.isArray(name)) return false;
  return name.length === 2 ? name[0] === principal : name[0] === "conversation" && name[1] === principal;
}

async function countIn(blobs: BlobStore, space: string): Promise<number> {
  let count = 0;
  for (let after: string | undefined; ;) {
    const page = await blobs.list(space, { after, countMax: SPACES_AT_ONCE });
    count += page.length;
    after = page.at(-1)?.id;
    if (page.length < SPACES_AT_ONCE || after === undefined) return count;
  }
}
