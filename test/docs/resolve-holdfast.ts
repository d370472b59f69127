/**
 * A resolve hook for documented programs: `holdfast/...` is the source that package.json's exports are
 * built from, and other packages are those of this repository, wherever the program lies.
 */
import { registerHooks } from "node:module";
import { pathToFileURL } from "node:url";
import { repositoryUrl, sourceOf } from "./entry-points.ts";

registerHooks({
  resolve(specifier, context, next) {
    const source = sourceOf(specifier);
    if (source !== undefined) return { url: pathToFileURL(source).href, shortCircuit: true };
    const isBare = /^[@\w]/.test(specifier) && !specifier.includes(":");
    return next(specifier, isBare ? { ...context, parentURL: repositoryUrl } : context);
  },
});
