/**
 * The planted bugs: each breaks one rule of the production code, and the simulator must notice.
 *
 * Their text follows the source to the letter; `test/simulation/mutants.test.ts` fails when it does
 * not, and `docs/GUARANTEES.md` shows the list.
 */
import { AGENT_MUTANTS } from "./table-agent.ts";
import { CLIENT_MUTANTS } from "./table-client.ts";
import { SERVER_MUTANTS } from "./table-server.ts";
import type { Patch } from "./patch.ts";

export interface Mutant {
  readonly name: string;
  /** The invariant it breaks. */
  readonly breaks: string;
  readonly patches: readonly Patch[];
  /** Who looks for it: campaigns of seeds (the default), or every crash point of one conversation. */
  readonly hunter?: "agent";
}

export const MUTANTS: readonly Mutant[] = [...SERVER_MUTANTS, ...CLIENT_MUTANTS, ...AGENT_MUTANTS];
