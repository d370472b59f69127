/**
 * The switches of a client as the environment sets them: for programs that leave these options to their user.
 */
import * as z from "../protocol/rules.ts";
import type { Switches } from "../client/stream-options.ts";
import { checked, variable, wholeText, yesOrNoText } from "../protocol/checked.ts";
import { given } from "../protocol/given.ts";

const VARIABLES = z.object({
  HOLDFAST_RELIABLE: variable(yesOrNoText()),
  HOLDFAST_PERSISTENCE: variable(yesOrNoText()),
  HOLDFAST_RETRY_LOOKBACK_WINDOW_MS: variable(wholeText(0)),
});

/** Only what is set. Throws `invalid_argument`, with the variable's name, when one is set to something that it cannot be. */
export function environmentSwitches(environment: Readonly<Record<string, string | undefined>>): Switches {
  const {
    HOLDFAST_RELIABLE: reliable,
    HOLDFAST_PERSISTENCE: persistence,
    HOLDFAST_RETRY_LOOKBACK_WINDOW_MS: retryLookbackWindowMs,
  } = checked(VARIABLES, environment);
  return given({ reliable, persistence, retryLookbackWindowMs });
}
