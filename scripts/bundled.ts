/**
 * Packages whose code is a part of ours when it is published: what of them we use is in `dist/vendor`, with their licences, and no user installs the rest.
 *
 * Their versions are pinned here in any case, so a bundle takes no update from anybody (docs/decisions/0139-what-an-install-weighs.md).
 */
import { existsSync, globSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { build, type Metafile } from "esbuild";
import { FOR_NODE } from "./command-bundle.ts";

export const BUNDLED: readonly string[] = [
  "@ai-sdk/anthropic",
  "@ai-sdk/google",
  "@ai-sdk/openai",
  "@ai-sdk/openai-compatible",
  "@ai-sdk/provider",
  "@ai-sdk/provider-utils",
  "@modelcontextprotocol/sdk",
];

const packages = BUNDLED.join("|");
/** `from "@ai-sdk/openai"`, `import("@ai-sdk/openai")`. */
const IMPORT = new RegExp(String.raw`(?<=\b(?:from|import)\s*\(?\s*")(?:${packages})(?:/[^"]*)?(?=")`, "g");

/** Puts what the JavaScript of `dist` imports of these packages into `dist/vendor`, and lets it import that. */
export async function bundleInto(dist: string, external: readonly string[]): Promise<void> {
  const files = globSync("**/*.js", { cwd: dist }).map((name) => join(dist, name));
  const importing = files.filter((file) => readFileSync(file, "utf8").search(IMPORT) !== -1);
  const specifiers = new Set(importing.flatMap((file) => readFileSync(file, "utf8").match(IMPORT) ?? []));
  const vendor = join(dist, "vendor");
  const { metafile } = await build({
    entryPoints: Object.fromEntries([...specifiers].map((specifier) => [nameOf(specifier), specifier])),
    outdir: vendor,
    ...FOR_NODE,
    external: [...external],
  });
  for (const file of importing) {
    const way = relative(dirname(file), vendor);
    const bundled = (specifier: string): string =>
      `${way.startsWith(".") ? way : `./${way}`}/${nameOf(specifier)}.js`;
    writeFileSync(file, readFileSync(file, "utf8").replaceAll(IMPORT, bundled));
  }
  writeFileSync(join(vendor, "LICENSES.txt"), licencesOf(metafile).join("\n\n"));
}

function nameOf(specifier: string): string {
  return specifier.replace(/\.js$/, "").replaceAll(/[@/]+/g, "-").replace(/^-/, "");
}

/** Of every package that a byte of the bundle comes from. */
function licencesOf({ inputs }: Metafile): readonly string[] {
  const folders = Object.keys(inputs).flatMap(
    (path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? [],
  );
  return [...new Set(folders)].toSorted().map((folder) => {
    const manifest: unknown = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const { name, version, license } = Object.assign({ name: "", version: "", license: "" }, manifest);
    const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
    const text =
      file !== undefined && existsSync(join(folder, file)) ? readFileSync(join(folder, file), "utf8") : "";
    return `${name} ${version}, ${license}\n\n${text.trim()}\n`;
  });
}
