/**
 * `npx node scripts/record-demo.ts`: plays `holdfast demo` for a terminal and writes what it showed, and when, as docs/images/demo.svg.
 *
 * The run is a real one, as `npx holdfast demo` is: processes that are killed, and the proof at the end. A run whose proof fails is not kept.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { demo } from "../src/cli/demo.ts";
import { terminalSvg, type Written } from "./terminal-svg.ts";

const COLUMNS = 100;
const ROWS = 26;
const SPEED = 2;

const written: Written[] = [];
const beganMs = performance.now();
const stdout = {
  isTTY: true,
  columns: COLUMNS,
  rows: ROWS,
  write: (text: string) => {
    process.stdout.write(text);
    written.push({ atMs: Math.round(performance.now() - beganMs), text });
  },
};
await demo(
  {},
  {
    stdout,
    stderr: process.stderr,
    env: { ...process.env, TERM: "xterm-256color", NO_COLOR: "" },
    cwd: process.cwd(),
    home: homedir(),
    platform: process.platform,
    command: "npx holdfast",
    now: Date.now,
  },
);
if (process.exitCode === undefined || process.exitCode === 0) {
  const images = join(import.meta.dirname, "../docs/images");
  mkdirSync(images, { recursive: true });
  // It begins with the first failure: the first screen has something to read, and does not wait for processes to start.
  const fromMs = written.find(({ text }) => text.includes("1 of "))?.atMs;
  if (fromMs === undefined) throw new Error("nothing failed");
  const title = `npx holdfast demo, a real run at ${SPEED} times its speed`;
  const svg = terminalSvg({ title, columns: COLUMNS, rows: ROWS, speed: SPEED, fromMs, written });
  writeFileSync(join(images, "demo.svg"), svg);
}
