/**
 * Loads every file of `src/core` and `src/turn` before the tests do, so that the coverage also counts a file that
 * no test imports.
 */
import { globSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const root = join(import.meta.dirname, "..");
for (const path of globSync("src/{core,turn}/**/*.ts", { cwd: root })) {
  await import(pathToFileURL(join(root, path)).href);
}
