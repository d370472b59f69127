/** Folders that live as long as one test, and databases in them. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import {
  closeSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  readdirSync,
  rmSync,
  statSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { DATABASE_FILE } from "../../src/store/index.ts";

const made: string[] = [];

after(() => {
  for (const folder of made.splice(0)) rmSync(folder, { recursive: true, force: true });
});

/** Removed when the file's tests are over. */
export function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-sqlite-"));
  made.push(folder);
  return folder;
}

/** Every file of a folder, with size and hash. Only for folders that this process has no database open in. */
export function contentOf(folder: string): readonly string[] {
  return readdirSync(folder)
    .toSorted()
    .map((file) => {
      const bytes = readFileSync(join(folder, file));
      return `${file} ${bytes.byteLength} ${createHash("sha256").update(bytes).digest("hex")}`;
    });
}

/** Streams and rows as a process that was killed leaves them: with a write-ahead log that is not moved. */
export async function killedFolder(): Promise<string> {
  const folder = newFolder();
  const script = join(import.meta.dirname, "sqlite-load.ts");
  const child = spawn(process.execPath, [script, folder], { stdio: ["ignore", "pipe", "inherit"] });
  // Killed when the write-ahead log has begun anew over a database that held something: that is in the database only.
  const log = join(folder, `${DATABASE_FILE}-wal`);
  let begunBefore: number | undefined;
  for await (const _ of child.stdout) {
    if (statSync(join(folder, DATABASE_FILE)).size > 2 ** 22) begunBefore ??= beginnings(log);
    if (begunBefore !== undefined && beginnings(log) > begunBefore) child.kill("SIGKILL");
  }
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  assert.ok(readdirSync(folder).includes(`${DATABASE_FILE}-wal`));
  return folder;
}

/** How often a write-ahead log was begun anew: its header counts them. */
function beginnings(path: string): number {
  const header = Buffer.alloc(16);
  const file = openSync(path, "r");
  readSync(file, header);
  closeSync(file);
  return header.readUInt32BE(12);
}
