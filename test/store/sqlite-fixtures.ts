/** Folders that live as long as one test, and databases in them. */
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";

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
