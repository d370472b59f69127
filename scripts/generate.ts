/**
 * Writes `src/protocol/gen` from the .proto files, after checking them: what protoc-gen-es makes of them, and the tables of our own codec.
 *
 * Everything is local: buf's launcher finds its binary in the platform's own package, so neither its
 * install script nor a network is needed, and the plugin is the one of this repository.
 */
import { spawnSync } from "node:child_process";
import { delimiter, join, resolve } from "node:path";
import { writeTables } from "./message-tables.ts";

const root = resolve(import.meta.dirname, "..");
const binaries = join(root, "node_modules/.bin");

function buf(...args: readonly string[]): void {
  const { status, error } = spawnSync(
    process.execPath,
    [join(root, "node_modules/@bufbuild/buf/bin/buf"), ...args],
    {
      cwd: root,
      env: { ...process.env, PATH: `${binaries}${delimiter}${process.env["PATH"] ?? ""}` },
      stdio: "inherit",
    },
  );
  if (error !== undefined) throw error;
  if (status !== 0) process.exit(status ?? 1);
}

buf("lint");
buf("format", "--write");
buf("generate");

await writeTables(join(root, "src/protocol/gen"));
