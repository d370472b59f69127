/**
 * The `holdfast` command in a few files instead of 800: most of a start is finding, reading and compiling files.
 *
 * A bundle of the source as it is, for the processes that tests start, and one of `dist`, which is published. Each file of ours still knows the place
 * where it lies outside the bundle, so what it starts beside itself (workers, the line) and what it reads (the page, the manual) are found there.
 */
import { readFileSync, rmSync } from "node:fs";
import { build, type BuildOptions, type Loader, type Metafile } from "esbuild";

/** How everything of ours is bundled that runs in Node. */
export const FOR_NODE = {
  bundle: true,
  splitting: true,
  format: "esm",
  platform: "node",
  target: "node24",
  metafile: true,
  logLevel: "warning",
  // Some packages are CommonJS within, and ask for modules of Node.
  banner: {
    js: 'import { createRequire as createRequireOfBundle } from "node:module"; const require = createRequireOfBundle(import.meta.url);',
  },
} as const satisfies BuildOptions;

/** JavaScript expressions that stand for `import.meta.dirname`, `.filename` and `.url` in a file. */
interface Place {
  readonly dirname: string;
  readonly filename: string;
  readonly url: string;
}

interface CommandBundle {
  /** Name of the bundled file, and the file that it is made of. */
  readonly entryPoints: Readonly<Record<string, string>>;
  readonly outdir: string;
  readonly extension: ".js" | ".mjs";
  /** Files of ours. */
  readonly own: RegExp;
  readonly placeOf: (path: string) => Place;
  /** Packages that stay what they are. */
  readonly external?: readonly string[];
  /** Where a file lies that is imported and stays what it is, seen from the bundle; undefined: it becomes a part. */
  readonly keptAt?: (path: string) => string | undefined;
}

export async function bundleCommandInto(options: CommandBundle): Promise<Metafile> {
  const { entryPoints, outdir, extension, own, placeOf, external = [], keptAt } = options;
  const placed = ({ path }: { readonly path: string }): { loader: Loader; contents: string } => {
    const { dirname, filename, url } = placeOf(path);
    const contents = readFileSync(path, "utf8")
      .replaceAll("import.meta.dirname", dirname)
      .replaceAll("import.meta.filename", filename)
      .replaceAll("import.meta.url", url);
    return { loader: path.endsWith(".ts") ? "ts" : "js", contents };
  };
  rmSync(outdir, { recursive: true, force: true });
  const { metafile } = await build({
    entryPoints: { ...entryPoints },
    outdir,
    outExtension: { ".js": extension },
    ...FOR_NODE,
    external: [...external],
    plugins: [
      {
        name: "places",
        setup: (bundling) => {
          bundling.onLoad({ filter: own }, placed);
          bundling.onResolve({ filter: /^\./ }, ({ path }) => {
            const kept = keptAt?.(path);
            return kept === undefined ? undefined : { path: kept, external: true };
          });
        },
      },
    ],
  });
  return metafile;
}
