/**
 * `npm run sim` does what its command line says, or refuses.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";

const main = new URL("main.ts", import.meta.url).pathname;
const run = (...args: readonly string[]) =>
  spawnSync(process.execPath, [main, ...args], { encoding: "utf8", timeout: 240_000 });

test("one seed and many seeds do not go together", () => {
  for (const [name, value] of [
    ["--seeds", "5"],
    ["--from", "2"],
    ["--seconds", "1"],
  ] as const) {
    const { status, stderr } = run("--seed", "4", name, value);
    assert.equal(status, 2);
    assert.match(stderr, new RegExp(`^--seed runs one seed; it does not go with ${name}\n`));
  }
  assert.match(run("--seeds", "2", "--trace").stderr, /^--trace goes with --seed\n/);
});

test("so many seeds are run as were asked for, from the one that was named", () => {
  const { status, stdout } = run("--seeds", "2", "--from", "7");
  assert.equal(status, 0);
  assert.match(stdout, /^streams: 2 seeds, /m);
});
