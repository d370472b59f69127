/**
 * A search without ripgrep: walks, reads and matches, in one go. It runs in a thread of its own.
 */
import { closeSync, readFileSync } from "node:fs";
import { fileFilter } from "./file-filter.ts";
import { type FileSearch, type Findings, GrepCollector } from "./grep-collector.ts";
import { compilePattern } from "./grep-pattern.ts";
import { searchText, textOf } from "./grep-text.ts";
import type { Jail } from "./jail.ts";
import { openSearched } from "./searched-file.ts";
import { filesBelow, type TreeFile } from "./tree.ts";

export function searchFiles({ path, glob, search }: FileSearch, jail: Jail): Findings {
  const pattern = compilePattern(search.pattern, search);
  const collector = new GrepCollector(search);
  const place = jail.locate(path);
  try {
    const filter = fileFilter(glob, place.path);
    for (const file of filesBelow(jail, place, { hidden: filter.hidden })) {
      if (file === undefined || !filter.takes(file.path)) continue;
      const text = readText(file, collector);
      if (text !== undefined) collector.add(file.path, searchText(text, pattern, search));
    }
    return collector.findings;
  } finally {
    place.close();
  }
}

/** Undefined when it is no text, or may not be read. */
function readText(file: TreeFile, collector: GrepCollector): string | undefined {
  const fd = openSearched(file, collector);
  if (fd === undefined) return undefined;
  try {
    return textOf(readFileSync(fd));
  } finally {
    closeSync(fd);
  }
}
