/**
 * How long an answer is wanted without a reader, and how many of those an API key may have under way.
 */
import type { ChatCall } from "./http/answers.ts";
import type { GatewayLimits } from "./options.ts";
import { tooManyInBackground } from "./refusals.ts";
import { isCounted } from "./session.ts";
import type { SessionDriver } from "./session-driver.ts";
import type { SharedLimits } from "./shared-limits.ts";

export interface WantedParts {
  readonly limits: Pick<GatewayLimits, "backgroundMax" | "backgroundMs" | "patienceMaxMs">;
  readonly sessions: { readonly all: readonly SessionDriver[] };
  /** Where other nodes share the tables. */
  readonly shared: SharedLimits | undefined;
}

type Wish = Pick<ChatCall, "principal" | "patienceMs" | "isBackground" | "apiKeyId">;

/** Rejects when the API key of this request has as many answers in the background as it may. */
export async function wantedBy({ limits, sessions, shared }: WantedParts, wish: Wish, streamId: string) {
  const { backgroundMax, backgroundMs, patienceMaxMs } = limits;
  const { principal, patienceMs, isBackground, apiKeyId } = wish;
  if (isBackground !== true)
    return { patienceMs: patienceMs === undefined ? undefined : Math.min(patienceMs, patienceMaxMs) };
  if (shared === undefined) admitHere(sessions.all, apiKeyId, backgroundMax);
  else await shared.admitBackground(principal, apiKeyId ?? "", streamId, backgroundMax);
  return { patienceMs: backgroundMs, isBackground, apiKeyId };
}

function admitHere(all: readonly SessionDriver[], apiKeyId: string | undefined, max: number): void {
  const underWay = all.filter(
    ({ record, state }) =>
      record.isBackground === true &&
      record.apiKeyId === apiKeyId &&
      record.state === "generating" &&
      isCounted(state),
  );
  if (underWay.length >= max) throw tooManyInBackground(max);
}
