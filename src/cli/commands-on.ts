/**
 * Commands that a message prints for the data directory it speaks of: the flag is there when the bare command would use another directory.
 */
import { failure } from "../node/failures.ts";
import { shellWord } from "../protocol/shell-word.ts";
import { resolveSettings } from "./settings.ts";
import type { Surroundings } from "./terminal.ts";

/** Commands on this data directory: `on("keys create")`. */
export function commandsOn(dataDir: string, surroundings: Surroundings): (command: string) => string {
  const flag = dataDir === usualDataDir(surroundings) ? "" : ` --data-dir ${shellWord(dataDir)}`;
  return (command) => `${surroundings.command} ${command}${flag}`;
}

export function noServer(dataDir: string, surroundings: Surroundings, more = ""): Error {
  const start = commandsOn(dataDir, surroundings)("serve");
  return failure(`no server runs on ${dataDir}; start one with: ${start}${more}`);
}

/** What a command without flags would use; undefined when it would only complain about its config file. */
function usualDataDir(surroundings: Surroundings): string | undefined {
  try {
    return resolveSettings({}, surroundings).dataDir;
  } catch {
    return undefined;
  }
}
