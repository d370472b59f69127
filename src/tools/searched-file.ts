/**
 * A file that is searched, whichever program does it: opened as it was found, if it is one, may be read and is not too large.
 */
import { codeOf } from "./faults.ts";
import type { GrepCollector } from "./grep-collector.ts";
import { letGo, openHeldFileSync } from "./held.ts";
import { SEARCHED_BYTES_MAX, type TreeFile } from "./tree.ts";

/** The descriptor is the caller's to close. */
export function openSearched(file: TreeFile, collector: GrepCollector): number | undefined {
  const held = file.hold();
  if (held === undefined) return undefined;
  try {
    if (!held.stats.isFile()) return undefined;
    if (held.stats.size > SEARCHED_BYTES_MAX) {
      collector.findings.truncated = true;
      return undefined;
    }
    return openHeldFileSync(held, file.path);
  } catch (cause) {
    if (codeOf(cause) === "EACCES" || codeOf(cause) === "EPERM") return undefined;
    throw cause;
  } finally {
    letGo(held);
  }
}
