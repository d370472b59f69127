/**
 * `holdfast forget --principal <name>`: deletes everything that a server keeps of one person.
 *
 * While a server runs on the data directory, it is asked, because it has to stop what runs. Otherwise the command opens the store itself; it then needs the home key, as the
 * server does, to know which of the gateway's sealed rows are the person's.
 */
import { ApiKeys, Spending } from "../server/index.ts";
import { eraseRows } from "../gateway/index.ts";
import { usageError } from "../node/failures.ts";
import { type Forgotten, forgetPrincipal, type ForgetWish } from "../node/forgetting.ts";
import { gatewayHomeKeys, gatewaySecrets } from "../node/home-keys.ts";
import { openSqliteStore } from "../store/index.ts";
import { askToForget, reachServer } from "./control-client.ts";
import { existingDatabase } from "./database-path.ts";
import { type DataFlags, type ResolvedSettings, resolveSettings } from "./settings.ts";
import { counted, type Surroundings, terminal, visible } from "./terminal.ts";

export interface ForgetFlags extends DataFlags {
  readonly principal?: string;
  readonly dryRun?: boolean;
  readonly keepApiKeys?: boolean;
}

export async function forget(flags: ForgetFlags, surroundings: Surroundings): Promise<void> {
  const { principal, dryRun: isDryRun = false, keepApiKeys: keepsApiKeys = false } = flags;
  if (principal === undefined) throw usageError("name the person with --principal <name>");
  const settings = resolveSettings(flags, surroundings);
  if (settings.store === undefined) existingDatabase(settings.dataDir);
  const wish: ForgetWish = { principal, isDryRun, keepsApiKeys };
  const isServed = (await reachServer(settings.dataDir)) !== undefined;
  const forgotten = isServed
    ? await askToForget(settings.dataDir, wish)
    : await forgetHere(settings, surroundings, wish);
  const { print, note } = terminal(surroundings);
  if (flags.json === true) return print(JSON.stringify({ principal, isDryRun, ...forgotten }));
  print(`${visible(principal)}: ${textOf(forgotten)} ${isDryRun ? "would be" : "are"} deleted.`);
  if (isDryRun) return;
  note(
    "Not deleted: backups, log files, journals on the person's own machine, what the models' providers keep.",
  );
  if (settings.store !== undefined) note("PostgreSQL frees the space when it vacuums its tables.");
}

function textOf({ streams, blobs, rows, apiKeys }: Forgotten): string {
  const parts = [
    counted(streams, "stream"),
    counted(blobs, "blob"),
    counted(rows, "row"),
    counted(apiKeys, "API key"),
  ];
  return parts.join(", ");
}

async function forgetHere(
  { dataDir, store: address, retentionMs }: ResolvedSettings,
  surroundings: Surroundings,
  wish: ForgetWish,
): Promise<Forgotten> {
  const { now, env } = surroundings;
  const isShared = address !== undefined;
  const store = isShared
    ? await (await import("../store/postgres/index.ts")).openPostgresStore(address, { variables: env })
    : await openSqliteStore(dataDir, { now });
  try {
    const { tables } = store;
    const onNotice = terminal(surroundings).note;
    const parts = { tables, isShared, dataDir, machine: surroundings, onNotice };
    const { sealer, secret } = gatewaySecrets(await gatewayHomeKeys(parts));
    return await forgetPrincipal(
      {
        store,
        keys: new ApiKeys({ tables, now }),
        spending: await Spending.open({ tables, now, retentionMs, isShared }),
        erase: async (which) => (await eraseRows({ tables, sealer, secret, ...which })).rows,
        stop: () => undefined,
      },
      wish,
    );
  } finally {
    await store.close();
  }
}
