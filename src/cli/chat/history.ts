/**
 * What was typed in this workspace before, for the arrow keys: a file with one entry per line, oldest first,
 * readable by its user alone.
 *
 * Losing it is no harm, so a file that cannot be read or written is as good as none.
 */
import { readFileIfThere, writeSecretFile } from "../../node/data-dir.ts";

const ENTRIES_MAX = 500;

export type History = ReturnType<typeof openHistory>;

export function openHistory(path: string) {
  return {
    /** Newest first, as readline has them. */
    entries: read(path),
    max: ENTRIES_MAX,
    keep: (entries: readonly string[]): void => {
      const lines = entries.filter((entry) => entry !== "").toReversed();
      try {
        writeSecretFile(path, lines.map((line) => `${line}\n`).join(""));
      } catch {
        // The chat continues without it.
      }
    },
  };
}

function read(path: string): readonly string[] {
  try {
    const lines = (readFileIfThere(path) ?? "").split("\n").filter((line) => line !== "");
    return lines.toReversed().slice(0, ENTRIES_MAX);
  } catch {
    return [];
  }
}
