/**
 * `npm run page -- [rounds]`: every point of "it holds", with the server killed in that moment, so many times (10).
 */
import { spawn } from "node:child_process";
import { join } from "node:path";

const [rounds = "10"] = process.argv.slice(2);
const args = ["--test", join(import.meta.dirname, "page-holds.test.ts")];
const env = { ...process.env, HOLDFAST_PAGE_ROUNDS: rounds };
spawn(process.execPath, args, { stdio: "inherit", env }).on("exit", (code) => {
  process.exitCode = code ?? 1;
});
