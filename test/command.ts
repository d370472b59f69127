/**
 * The file that a test runs as the `holdfast` command: the source, or the bundle of it that `npm test` makes once for all tests (`scripts/tested-command.ts`).
 */
import { join } from "node:path";

const SOURCE = join(import.meta.dirname, "../src/cli/main.ts");

/** A planted bug is in the source alone. */
export const COMMAND =
  process.env["HOLDFAST_PATCHES"] === undefined ? (process.env["HOLDFAST_TESTED_COMMAND"] ?? SOURCE) : SOURCE;
