/**
 * All mutations: every file `*.table.ts` of this folder.
 */
import { globSync } from "node:fs";
import type { Mutation } from "./mutation.ts";

export async function readTables(): Promise<Mutation[]> {
  const paths = globSync("*.table.ts", { cwd: import.meta.dirname }).toSorted();
  const tables = await Promise.all(
    paths.map(async (path) => {
      const loaded: unknown = await import(`./${path}`);
      if (!isTable(loaded)) throw new Error(`${path} exports no MUTATIONS`);
      return loaded.MUTATIONS;
    }),
  );
  return tables.flat();
}

function isTable(loaded: unknown): loaded is { readonly MUTATIONS: readonly Mutation[] } {
  return typeof loaded === "object" && loaded !== null && "MUTATIONS" in loaded;
}
