/**
 * `holdfast link`: a fresh link to the page of the running server, without a restart.
 *
 * Asked of the server, which alone can sign a browser in. It goes to standard output and nowhere else: the browser that opens it first is signed in (E4).
 */
import { failure } from "../node/failures.ts";
import { commandsOn } from "./commands-on.ts";
import { askLink } from "./control-client.ts";
import { type Flags, resolveSettings } from "./settings.ts";
import { type Surroundings, terminal } from "./terminal.ts";

export interface LinkFlags extends Pick<Flags, "dataDir" | "config"> {
  readonly json?: boolean;
}

export async function link(flags: LinkFlags, surroundings: Surroundings): Promise<void> {
  const { dataDir } = resolveSettings(flags, surroundings);
  const on = commandsOn(dataDir, surroundings);
  const made = await askLink(dataDir);
  if (made === undefined) throw failure(`no server runs on ${dataDir}; start one with: ${on("serve")}`);
  if (made === "")
    throw failure(
      `the server listens on no address of this machine alone; open its page with an API key of: ${on("keys create")}`,
    );
  const term = terminal(surroundings);
  term.print(flags.json === true ? JSON.stringify({ link: made }) : made);
}
