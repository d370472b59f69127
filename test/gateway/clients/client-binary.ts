/**
 * Real clients, each at one version: their binaries come from npm, once per machine, into a cache beside the repository's own packages.
 *
 * They are too large (up to 400 MB) to be dev dependencies that every contributor downloads. Where one cannot be had its tests are skipped, say so, and are counted;
 * `HOLDFAST_REQUIRE_CLIENTS=1` makes that a failure.
 */
import { execFile, spawn } from "node:child_process";
import { existsSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import type { TestContext } from "node:test";
import { promisify } from "node:util";

export interface ClientPackage {
  /** For people. */
  readonly name: string;
  /** As npm knows it, without its version. */
  readonly package: string;
  readonly version: string;
  /** Within the package. */
  readonly binary: string;
}

const INSTALL_MS = 280_000;
const IS_THERE = process.platform === "linux" && process.arch === "x64";

/** Where the binary is; installs it when it is not there. Undefined, and the test is skipped, where it cannot be had. */
export async function binaryOf(t: TestContext, client: ClientPackage): Promise<string | undefined> {
  const why = IS_THERE ? undefined : "it is tested on Linux x64 only";
  try {
    if (why !== undefined) throw new Error(why);
    return await installed(client);
  } catch (error) {
    return notHad(t, client.name, error);
  }
}

/** It takes seconds on an idle machine; a hanging client must not hang the test run. */
const RUN_MS = 200_000;

export interface ClientRun {
  readonly code: number | null;
  /** The last message. */
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a client in its project, with an environment of its own. */
export async function runClient(
  binary: string,
  args: readonly string[],
  place: { readonly cwd: string; readonly env: Readonly<Record<string, string>> },
): Promise<ClientRun> {
  const child = spawn(binary, args, {
    cwd: place.cwd,
    env: { PATH: process.env["PATH"], ...place.env },
    stdio: ["ignore", "pipe", "pipe"],
    timeout: RUN_MS,
    killSignal: "SIGKILL",
  });
  const code = new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { code: await code, stdout, stderr };
}

/** The test is skipped, unless clients are required. */
export function notHad(tested: TestContext, name: string, why: unknown): undefined {
  if (process.env["HOLDFAST_REQUIRE_CLIENTS"] === "1") throw why;
  tested.skip(`NOT TESTED: ${name} cannot be had here: ${String(why)}`);
}

/** Rejects when there is no registry to have it from. */
async function installed(client: ClientPackage): Promise<string> {
  const { package: name, version, binary } = client;
  const cache = join(tmpdir(), `holdfast-${name.replace(/^.*\//, "")}-${version}`);
  const path = join(cache, "node_modules", name, binary);
  if (existsSync(path)) return path;
  const fresh = mkdtempSync(`${cache}-`);
  try {
    const args = [
      "install",
      "--prefix",
      fresh,
      "--no-save",
      "--ignore-scripts",
      "--no-audit",
      "--no-fund",
      `${name}@${version}`,
    ];
    await promisify(execFile)("npm", args, { cwd: fresh, timeout: INSTALL_MS });
    // Whole or not at all: another test run may be installing it as well, and the first one wins.
    if (!existsSync(path)) renameSync(fresh, cache);
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
  return path;
}
