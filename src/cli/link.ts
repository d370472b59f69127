/**
 * `holdfast link`: a fresh link to the page of the running server, without a restart.
 *
 * Asked of the server, which alone can sign a browser in. It goes to standard output and nowhere else: the browser that opens it first is signed in (E4).
 */
import { failure } from "../node/failures.ts";
import { commandsOn, noServer } from "./commands-on.ts";
import { askLink } from "./control-client.ts";
import { type DataFlags, resolveSettings } from "./settings.ts";
import { type Surroundings, terminal } from "./terminal.ts";

export async function link(flags: DataFlags, surroundings: Surroundings): Promise<void> {
  const { dataDir } = resolveSettings(flags, surroundings);
  const made = await askLink(dataDir);
  if (made === undefined) throw noServer(dataDir, surroundings);
  if (made === "")
    throw failure(
      `the server does not listen on loopback, so no link can sign in; open its page with an API key from: ${commandsOn(dataDir, surroundings)("keys create")}`,
    );
  const term = terminal(surroundings);
  term.print(flags.json === true ? JSON.stringify({ link: made }) : made);
}
