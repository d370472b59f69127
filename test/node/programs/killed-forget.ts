/**
 * `holdfast forget` that is killed: `node killed-forget.ts <data directory> <principal> <n>` ends in its n-th change of the store, half of them before it and half behind it.
 * Rows of tables are deleted one by one, so that a change is as small as it can be.
 */
import { eraseRows } from "../../../src/gateway/index.ts";
import { type Forgotten, forgetPrincipal } from "../../../src/node/forgetting.ts";
import { gatewayHomeKeys, gatewaySecrets } from "../../../src/node/home-keys.ts";
import { type Machine, thisMachine } from "../../../src/node/machine.ts";
import { ApiKeys, Spending } from "../../../src/server/index.ts";
import { openSqliteStore, type TableStore } from "../../../src/store/index.ts";

interface Forgetting {
  readonly dataDir: string;
  readonly principal: string;
  readonly machine: Machine;
  /** Called around each change. */
  readonly around: <Done>(change: () => Promise<Done>) => Promise<Done>;
}

export async function forgetIn({ dataDir, principal, machine, around }: Forgetting): Promise<Forgotten> {
  const { now } = machine;
  const store = await openSqliteStore(dataDir, { now });
  const { tables, streams, blobs } = store;
  const onNotice = (): void => undefined;
  const { sealer, secret } = gatewaySecrets(
    await gatewayHomeKeys({ tables, isShared: false, dataDir, machine, onNotice }),
  );
  const small: TableStore = {
    ...tables,
    delete: (at) => around(() => tables.delete(at)),
    batch: async (writes) => {
      let last = await tables.batch([]);
      for (const write of writes) last = await around(() => tables.batch([write]));
      return last;
    },
  };
  try {
    return await forgetPrincipal(
      {
        store: {
          tables: small,
          streams: { ...streams, forget: (whose) => around(() => streams.forget(whose)) },
          blobs: { ...blobs, clear: (space) => around(() => blobs.clear(space)) },
          shred: () => around(() => store.shred()),
        },
        keys: new ApiKeys({ tables: small, now }),
        spending: await Spending.open({ tables: small, now, retentionMs: 0, isShared: false }),
        erase: async (which) => (await eraseRows({ tables: small, sealer, secret, ...which })).rows,
        stop: () => undefined,
      },
      { principal, isDryRun: false, keepsApiKeys: false },
    );
  } finally {
    await store.close();
  }
}

if (import.meta.main) {
  const [dataDir = "", principal = "", at] = process.argv.slice(2);
  let left = Number(at);
  const around: Forgetting["around"] = async (change) => {
    if (left-- > 0) return change();
    // The disk may have it or not.
    if (Number(at) % 2 === 1) await Promise.race([change(), new Promise(setImmediate)]);
    process.kill(process.pid, "SIGKILL");
    return new Promise(() => undefined);
  };
  await forgetIn({ dataDir, principal, machine: thisMachine(), around });
}
