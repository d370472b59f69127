/**
 * The `holdfast` command as one bundle, for the processes that tests start.
 *
 * Tests start it some hundred times. Two thirds of a start is finding and loading 800 files; the bundle has the same source in a few. Each file still knows the
 * place where it lies in `src`, so what it starts beside itself (workers, the line) is the source there.
 *
 * Invariant: the bundle is made of the source as it is now. A run with a planted bug does not use it (`test/command.ts`).
 */
import { readFileSync, rmSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";

const INTO = resolve("node_modules/.cache/holdfast-tested");

/** Returns the file that runs the command. */
export async function bundleCommand(): Promise<string> {
  rmSync(INTO, { recursive: true, force: true });
  await build({
    entryPoints: { holdfast: "src/cli/main.ts" },
    outdir: INTO,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node24",
    logLevel: "warning",
    // Some packages are CommonJS within, and ask for modules of Node.
    banner: {
      js: 'import { createRequire as createRequireOfBundle } from "node:module"; const require = createRequireOfBundle(import.meta.url);',
    },
    plugins: [{ name: "places", setup: (bundling) => bundling.onLoad({ filter: /\/src\/.*\.ts$/ }, placed) }],
  });
  return join(INTO, "holdfast.mjs");
}

/** A file of ours whose `import.meta` says where its source is. */
function placed({ path }: { readonly path: string }): { loader: "ts"; contents: string } {
  const contents = readFileSync(path, "utf8")
    .replaceAll("import.meta.dirname", JSON.stringify(dirname(path)))
    .replaceAll("import.meta.filename", JSON.stringify(path))
    .replaceAll("import.meta.url", JSON.stringify(pathToFileURL(path).href));
  return { loader: "ts", contents };
}
