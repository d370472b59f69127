/** Directories that end with their test. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

export function temporaryDirectory(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-client-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}
