/**
 * Makes `dist/`: what `npm publish` ships. Removes the old one first, so that a deleted source file
 * does not live on in the package.
 */
import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";

rmSync("dist", { recursive: true, force: true });
const { status } = spawnSync("tsc", ["-p", "tsconfig.build.json"], { stdio: "inherit" });
process.exitCode = status ?? 1;
