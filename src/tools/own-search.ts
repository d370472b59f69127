/**
 * A search without ripgrep: walks, reads and matches, in one go. It runs in a thread of its own.
 */
import { closeSync, readFileSync } from "node:fs";
import { type FileSearch, type Findings, grepCollector } from "./grep-collector.ts";
import { compilePattern } from "./grep-pattern.ts";
import { searchText, textOf } from "./grep-text.ts";
import type { Jail } from "./jail.ts";
import { searchedFiles } from "./searched-file.ts";

export function searchFiles(what: FileSearch, jail: Jail): Findings {
  const { search } = what;
  const pattern = compilePattern(search.pattern, search);
  const collector = grepCollector(search);
  for (const file of searchedFiles(what, jail, collector)) {
    if (file === undefined) continue;
    try {
      const text = textOf(readFileSync(file.fd));
      if (text !== undefined) collector.add(file.path, searchText(text, pattern, search));
    } finally {
      closeSync(file.fd);
    }
  }
  return collector.findings;
}
