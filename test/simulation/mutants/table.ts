/**
 * The planted bugs: each breaks one rule of the production code, and the simulator must notice.
 *
 * Their text follows the source to the letter; `test/simulation/mutants.test.ts` fails when it does
 * not, and `docs/GUARANTEES.md` shows the list.
 */
import { AGENT_MUTANTS } from "./table-agent.ts";
import { CLIENT_MUTANTS } from "./table-client.ts";
import { GATEWAY_MUTANTS } from "./table-gateway.ts";
import { NODE_MUTANTS } from "./table-nodes.ts";
import { ORDEAL_MUTANTS } from "./table-ordeals.ts";
import { PROVIDER_MUTANTS } from "./table-provider.ts";
import { RESTING_MUTANTS } from "./table-resting.ts";
import { RETURN_MUTANTS } from "./table-returns.ts";
import { SERVER_MUTANTS } from "./table-server.ts";
import { SESSION_MUTANTS } from "./table-session.ts";
import { TRANSITION_MUTANTS } from "./table-transitions.ts";
import { TURN_MUTANTS } from "./table-turn.ts";
import type { Patch } from "./patch.ts";

export interface Mutant {
  readonly name: string;
  /** The invariant it breaks. */
  readonly breaks: string;
  readonly patches: readonly Patch[];
  /** What looks for it: seeds of streams (the default), every crash point of one conversation, or seeds of the gateway or of its nodes. */
  readonly hunter?: "agent" | "gateway" | "nodes";
}

export const MUTANTS: readonly Mutant[] = [
  ...SERVER_MUTANTS,
  ...NODE_MUTANTS,
  ...CLIENT_MUTANTS,
  ...ORDEAL_MUTANTS,
  ...TURN_MUTANTS,
  ...PROVIDER_MUTANTS,
  ...AGENT_MUTANTS,
  ...GATEWAY_MUTANTS,
  ...RETURN_MUTANTS,
  ...SESSION_MUTANTS,
  ...RESTING_MUTANTS,
  ...TRANSITION_MUTANTS,
];
