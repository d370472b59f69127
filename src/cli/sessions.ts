/**
 * `holdfast sessions`: what the gateway of the running server has open.
 *
 * Asked of the server: sessions are sealed on the disk, and only the process that runs them knows what they do now.
 */
import { askSessions } from "./control-client.ts";
import type { SessionInfo } from "./control-messages.ts";
import { noServer } from "./commands-on.ts";
import { type DataFlags, resolveSettings } from "./settings.ts";
import { minute, type Surroundings, table, terminal, visible } from "./terminal.ts";

export async function sessions(flags: DataFlags, surroundings: Surroundings): Promise<void> {
  const { dataDir } = resolveSettings(flags, surroundings);
  const open = await askSessions(dataDir);
  if (open === undefined) throw noServer(dataDir, surroundings);
  const term = terminal(surroundings);
  if (flags.json === true) return term.print(JSON.stringify(open));
  if (open.length === 0)
    return term.note(
      "No session is open: no client waits for an answer, and no answer waits for tool results.",
    );
  const head = ["STREAM", "PRINCIPAL", "MODEL", "STATE", "TOOLS", "SINCE"];
  for (const line of table(head, open.map(rowOf), term)) term.print(line);
}

function rowOf({ streamId, principal, model, state, pending, updatedMs }: SessionInfo): string[] {
  return [streamId, visible(principal), visible(model), state, String(pending), minute(updatedMs)];
}
