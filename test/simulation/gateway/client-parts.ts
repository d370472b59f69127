/**
 * What a simulated OpenAI client has of its world.
 */
import type { World } from "../world/index.ts";
import type { AnswerChecks } from "./answer-checks.ts";
import type { Shown } from "./exchange.ts";
import type { FrontDoor } from "./front-door.ts";
import type { RefAnswer } from "./reference-answers.ts";
import type { Sent, Talk } from "./talk.ts";

export interface ClientParts {
  readonly world: World;
  readonly door: FrontDoor;
  readonly checks: AnswerChecks;
  readonly answerOf: (shown: Shown) => RefAnswer | undefined;
  readonly nextMarker: () => number;
  /** How long it thinks at most before it asks again. */
  readonly paceMs: number;
  /** It often hangs up, stops what it asked for, or gives up. */
  readonly isHasty: boolean;
  /** What all clients have seen, to steal from. */
  readonly talks: () => readonly (readonly [string, Talk])[];
  /** Clients come by all doors; else by chat. */
  readonly hasDoors: boolean;
  /** Clients of other principals. */
  readonly others: (principal: string) => readonly { copy(sent: Sent): Promise<void> }[];
}
