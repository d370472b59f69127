/**
 * A page's script as one file: TypeScript in, what a browser runs out.
 */
import { build } from "esbuild";

const here = import.meta.dirname;

/** `entry` lies in `test/browser/page`. Suites that were written for Node's test runner run there too. */
export async function bundle(entry: string): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [`${here}/page/${entry}`],
    bundle: true,
    write: false,
    // Also as a script that is put into a page.
    format: "iife",
    target: "es2024",
    alias: {
      "node:test": `${here}/page/test-runner.ts`,
      "node:assert/strict": `${here}/page/assertions.ts`,
    },
  });
  const [file] = outputFiles;
  if (file === undefined) throw new Error(`${entry} made no bundle`);
  return file.text;
}

/** A page that runs one script. */
export const html = (script: string): string =>
  `<!doctype html><meta charset="utf-8"><title>test</title><script type="module" src="${script}"></script>`;
