/**
 * `holdfast keys rotate-home` that is killed: `node killed-rotation.ts <data directory> before|behind`, before or behind the write by which the database gets its new home key.
 */
import { thisMachine } from "../../../src/node/machine.ts";
import { rotateGatewayKey } from "../../../src/node/home-keys.ts";
import { openSqliteStore, type TableStore } from "../../../src/store/index.ts";

const [dataDir = "", moment] = process.argv.slice(2);
const { tables } = await openSqliteStore(dataDir, { now: Date.now });
const die = (): Promise<never> => {
  process.kill(process.pid, "SIGKILL");
  return new Promise(() => undefined);
};
const mortal: TableStore = {
  ...tables,
  get: (at) => tables.get(at),
  compareAndSwap: async (...asked) => {
    if (moment === "before") await die();
    await tables.compareAndSwap(...asked);
    return die();
  },
};
const machine = thisMachine();
await rotateGatewayKey({ tables: mortal, isShared: false, dataDir, machine, onNotice: () => undefined }, 9);
