/** Adds one to a row, as often as it is told, against everybody else who does; says the versions it got. */
import { NO_ROW } from "../../../src/store/index.ts";
import { openSharedTables } from "../../../src/store/sqlite/shared-tables.ts";

const [, , path = "", times = "0"] = process.argv;
const tables = await openSharedTables(path, { now: Date.now });
const at = { table: "t", key: "sum" };
const versions: number[] = [];
while (versions.length < Number(times)) {
  const row = await tables.get(at);
  const sum = Number(Buffer.from(row?.value ?? []).toString()) + 1;
  const result = await tables.compareAndSwap(at, row?.version ?? NO_ROW, Buffer.from(String(sum)));
  if (result.kind === "written") versions.push(result.version);
}
await tables.close();
process.send?.(`done ${versions.join(",")}`);
process.disconnect();
