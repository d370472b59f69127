/**
 * What a page loads of the client, compressed as servers do it. The bounds only fall.
 */
import assert from "node:assert/strict";
import { resolve } from "node:path";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const KB = 1000;

async function bundled(contents: string) {
  const { outputFiles, metafile } = await build({
    stdin: { contents, resolveDir: resolve(import.meta.dirname, "../../src"), loader: "ts" },
    bundle: true,
    minify: true,
    write: false,
    metafile: true,
    format: "esm",
    platform: "browser",
    target: "es2022",
    external: ["react"],
  });
  const inputs = Object.values(metafile.outputs).flatMap((output) => Object.entries(output.inputs));
  return {
    gzippedBytes: gzipSync(outputFiles[0]?.contents ?? "", { level: 9 }).length,
    foreign: inputs.filter(
      ([path, { bytesInOutput }]) => path.includes("node_modules/") && bytesInOutput > 0,
    ),
  };
}

const LOADED = [
  {
    what: "a client of streams",
    script: 'export { openClient } from "./client/browser/index.ts";',
    gzippedBytesMax: 40 * KB,
  },
  {
    what: "a client of conversations",
    script: 'export { Conversations, openClient, storesOf } from "./client/browser/index.ts";',
    gzippedBytesMax: 62 * KB,
  },
];

for (const { what, script, gzippedBytesMax } of LOADED) {
  test(`${what} is at most ${gzippedBytesMax / KB} KB, and has no package of others in it`, async () => {
    const { gzippedBytes, foreign } = await bundled(script);
    assert.deepEqual(foreign, []);
    assert.ok(gzippedBytes > 20 * KB && gzippedBytes <= gzippedBytesMax, `${gzippedBytes} bytes`);
  });
}
