/** `holdfast/fetch` as pages load it: small, and without a word of ours from elsewhere. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const GZIPPED_BYTES_MAX = 5 * 1024;

test("bundled for a browser it is at most 5 KB", async () => {
  const entryPoints = [`${import.meta.dirname}/../../src/fetch/index.ts`];
  const { outputFiles, metafile } = await build({
    entryPoints,
    bundle: true,
    minify: true,
    write: false,
    metafile: true,
    format: "esm",
    platform: "browser",
  });
  const bytes = gzipSync(outputFiles[0]?.contents ?? "").length;
  assert.ok(bytes > 1_000 && bytes <= GZIPPED_BYTES_MAX, `${bytes} bytes`);
  for (const path of Object.keys(metafile.inputs)) assert.match(path, /^(?:.*\/)?src\/fetch\//);
});
