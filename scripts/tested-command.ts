/**
 * The `holdfast` command as one bundle, for the processes that tests start: they start it some hundred times.
 *
 * Invariant: the bundle is made of the source as it is now. A run with a planted bug does not use it (`test/command.ts`).
 */
import { dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { bundleCommandInto } from "./command-bundle.ts";

const INTO = resolve("node_modules/.cache/holdfast-tested");

/** Returns the file that runs the command. */
export async function bundleCommand(): Promise<string> {
  await bundleCommandInto({
    entryPoints: { holdfast: "src/cli/main.ts" },
    outdir: INTO,
    extension: ".mjs",
    own: /\/src\/.*\.ts$/,
    placeOf: (path) => ({
      dirname: JSON.stringify(dirname(path)),
      filename: JSON.stringify(path),
      url: JSON.stringify(pathToFileURL(path).href),
    }),
  });
  return join(INTO, "holdfast.mjs");
}
