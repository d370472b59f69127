/**
 * Makes `dist/`: what `npm publish` ships. Removes the old one first, so that a deleted source file
 * does not live on in the package.
 */
import { spawnSync } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { bundleInto } from "./bundled.ts";

rmSync("dist", { recursive: true, force: true });
const { status } = spawnSync("tsc", ["-p", "tsconfig.build.json"], { stdio: "inherit" });
if (status !== 0) process.exit(status ?? 1);
const manifest: unknown = JSON.parse(readFileSync("package.json", "utf8"));
const { dependencies } = Object.assign({ dependencies: {} }, manifest);
await bundleInto("dist", Object.keys(dependencies));
const page = spawnSync(process.execPath, ["scripts/page.ts", "dist/page"], { stdio: "inherit" });
process.exitCode = page.status ?? 1;
