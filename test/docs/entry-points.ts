/**
 * Where the entry points of the package come from: `holdfast/client` is `src/client/index.ts`.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { field, fieldsOf } from "../tidy/repository.ts";

export const repository = join(import.meta.dirname, "../..");
export const repositoryUrl = pathToFileURL(join(repository, "package.json")).href;

const manifest: unknown = JSON.parse(readFileSync(join(repository, "package.json"), "utf8"));

/** By the name under which they are imported. */
export const entryPoints: ReadonlyMap<string, string> = new Map(
  fieldsOf(field(manifest, "exports")).flatMap(([name, entry]) => {
    const built = field(entry, "default");
    if (typeof built !== "string") return [];
    const source = built.replace(/^\.\/dist\//, "src/").replace(/\.js$/, ".ts");
    return [[`holdfast${name.slice(1)}`, join(repository, source)]];
  }),
);

export function sourceOf(specifier: string): string | undefined {
  return entryPoints.get(specifier);
}
