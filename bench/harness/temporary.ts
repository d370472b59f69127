/**
 * Directories for one variant of one round. Removed after it, so that no run finds what another left.
 *
 * `HOLDFAST_BENCH_DIR` names the disk to measure; the default is the system's place for temporary files,
 * which must not be a memory disk for the synced rows to mean anything.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface TemporaryDirectories {
  make(): Promise<string>;
  remove(): Promise<void>;
}

export function benchDirectory(): string {
  return process.env["HOLDFAST_BENCH_DIR"] ?? tmpdir();
}

/** Those of all variants, for a run that is interrupted. */
const all = new Set<string>();

export function temporaryDirectories(): TemporaryDirectories {
  const made: string[] = [];
  return {
    async make() {
      const directory = await mkdtemp(join(benchDirectory(), "holdfast-bench-"));
      made.push(directory);
      all.add(directory);
      return directory;
    },
    async remove() {
      await removeEach(made.splice(0));
    },
  };
}

export async function removeTemporaryDirectories(): Promise<void> {
  await removeEach([...all]);
}

async function removeEach(directories: readonly string[]): Promise<void> {
  for (const directory of directories) {
    await rm(directory, { recursive: true, force: true });
    all.delete(directory);
  }
}
