/**
 * `holdfast keys rotate-home`: gives the gateway of a data directory, or of the nodes on a PostgreSQL, a new home key.
 *
 * What begins from then on is sealed under the new key. What there is stays under its own, which lies sealed under the new one in the database, so sessions, kept conversations and
 * answers continue. It needs the servers stopped, since one that runs would not know the new key.
 */
import * as z from "../protocol/rules.ts";
import { failure } from "../node/failures.ts";
import { rotateGatewayKey } from "../node/home-keys.ts";
import { livingNodes } from "../node/node-life.ts";
import { asFlag, checked, wholeText } from "../protocol/checked.ts";
import { findServer } from "./control-client.ts";
import { existingDatabase } from "./database-path.ts";
import { openTables } from "./keys.ts";
import { type DataFlags, resolveSettings } from "./settings.ts";
import { counted, type Surroundings, terminal } from "./terminal.ts";

export interface RotateHomeFlags extends DataFlags {
  readonly keep?: string;
}

const FLAGS = z.object({ keep: z.optional(wholeText(0, 1_000)) });

export async function rotateHome(flags: RotateHomeFlags, surroundings: Surroundings): Promise<void> {
  const { keep = Number.MAX_SAFE_INTEGER } = checked(FLAGS, flags, asFlag);
  const settings = resolveSettings(flags, surroundings);
  const { dataDir } = settings;
  const isShared = settings.store !== undefined;
  if (!isShared) existingDatabase(dataDir);
  const seen = await findServer(dataDir);
  if (seen.kind === "running")
    throw failure(`stop the server at ${seen.about.url} first: it would not know the new home key`);
  const { print, note } = terminal(surroundings);
  const { tables, close } = await openTables(settings, surroundings);
  try {
    const running = await livingNodes(tables);
    if (running.size > 0)
      throw failure(
        `${counted(running.size, "node")} of this PostgreSQL would not know the new home key: stop all of them first. One that was killed counts for ${settings.leaseMs / 1_000} s longer`,
      );
    const { keys, file } = await rotateGatewayKey(
      { tables, isShared, dataDir, machine: surroundings, onNotice: note },
      keep,
    );
    const { keyNumber, older } = keys;
    if (flags.json === true)
      print(JSON.stringify({ keyNumber, older: [...older.keys()], file: file ?? null }));
    else
      print(
        `The home key is rotated (number ${keyNumber}). ${counted(older.size, "older key")} ${older.size === 1 ? "stays" : "stay"} for older data.`,
      );
    note(
      file === undefined
        ? "From now on HOLDFAST_HOME_KEY is what HOLDFAST_NEW_HOME_KEY was."
        : `The new key is in ${file}${isShared ? ": copy that file to the other nodes" : ""}.`,
    );
    note("A backup from before the rotation needs the home key of its time.");
    const late = await livingNodes(tables);
    if (late.size > 0)
      throw failure(
        `${counted(late.size, "node")} started during the rotation, perhaps with the old home key: restart all nodes`,
      );
  } finally {
    await close();
  }
}
