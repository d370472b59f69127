#!/usr/bin/env node
/**
 * The `holdfast` command as npm finds it, in a package and in a checkout.
 *
 * A package has the built `dist/` and no `src/`; a checkout has `src/`, which Node runs as it is, and needs no build. Nothing is imported before Node's version
 * is known: an older one fails at the first import, and does not say why.
 */
const NODE_MAJOR_MIN = 24;

if (Number.parseInt(process.versions.node, 10) < NODE_MAJOR_MIN) {
  const [needed, running] = [NODE_MAJOR_MIN, process.versions.node];
  process.stderr.write(
    `Holdfast needs Node ${needed} or later; this is ${running}. For npx in this directory: npm install node@${needed}\n`,
  );
  process.exitCode = 1;
} else {
  const { existsSync } = await import("node:fs");
  const source = new URL("../src/cli/main.ts", import.meta.url);
  await import(existsSync(source) ? source.href : new URL("../dist/cli/main.js", import.meta.url).href);
}
