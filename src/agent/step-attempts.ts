/**
 * A step, over as many attempts as it takes: what happens when a provider breaks its output off.
 *
 * A broken attempt is rolled back and the step begins anew, as after a crash, while nothing was shown that cannot be taken back. Text that an
 * OpenAI stream has shown can not: then the turn fails, with an error that says so. What was thought, or written of a tool call, is no text.
 *
 * Invariant: a step begins anew at most three times (F1), and never behind text that is final (G1).
 */
import { setTimeout as delay } from "node:timers/promises";
import { type Model, type ModelCall, ModelFailure } from "./model.ts";
import { ModelStep, type StepContext, type StepPlace } from "./model-step.ts";
import { DEFAULT_PATIENCE, pauseMsBefore } from "./models/patience.ts";
import type { OpenStep } from "./open-step.ts";
import { StepRequests } from "./step-requests.ts";
import { TurnFailure } from "./turn-failure.ts";
import type { TurnIo } from "./turn-io.ts";

export interface AttemptsContext extends StepContext {
  /** The first pause before a new attempt is at most this, the next twice, chosen at random. */
  readonly backoffMs: number;
}

export async function runStep(
  context: AttemptsContext,
  first: StepPlace,
  model: Model,
  call: Omit<ModelCall, "signal" | "requests">,
): Promise<void> {
  const { io, now } = context;
  const isFinal = io.log.options?.shownIsFinal === true;
  const requests = new StepRequests({
    before: first.requestsBefore,
    isHeadHeld: isFinal,
    now,
    untilDurable: () => io.untilDurable(io.head),
  });
  for (let place = first; ;) {
    try {
      await new ModelStep(context, place).run(model, { ...call, requests });
      return;
    } catch (error) {
      if (!(error instanceof ModelFailure)) throw error;
      const { open } = io.log;
      switch (verdictOn(error, open, isFinal)) {
        case "fail":
          throw error;
        case "interrupted":
          throw new TurnFailure("upstream_interrupted", error.message, { cause: error });
        case "restart":
          if (requests.isSpent) throw error;
          place = restartPlace(io, error, requests.sent);
          await pauseBefore(place.attempt, error, context, open?.hasThinking === true ? undefined : requests);
      }
    }
  }
}

export type Verdict = "fail" | "restart" | "interrupted";

/** What a failure of the open step means. Before any content the model has tried again by itself. */
export function verdictOn(
  { isPassing }: Pick<ModelFailure, "isPassing">,
  open: Pick<OpenStep, "hasContent" | "hasText"> | undefined,
  isFinal: boolean,
): Verdict {
  if (!isPassing || open?.hasContent !== true) return "fail";
  return isFinal && open.hasText ? "interrupted" : "restart";
}

/** Throws the failure when the step has begun anew as often as it may. */
function restartPlace({ log }: TurnIo, failure: ModelFailure, requestsBefore: number): StepPlace {
  const { open, book } = log;
  const restart = log.feed({ kind: "step_broken" }).find(({ kind }) => kind === "restart_step");
  if (restart?.kind !== "restart_step" || open === undefined) throw failure;
  const attempt = (book.open?.restarts ?? 0) + 1;
  return { step: open.step, attempt, rollbackTo: restart.rollbackTo, requestsBefore };
}

async function pauseBefore(
  attempt: number,
  failure: ModelFailure,
  { io, backoffMs }: AttemptsContext,
  requests: StepRequests | undefined,
): Promise<void> {
  const { retryAfterMsMax } = DEFAULT_PATIENCE;
  const pauseMs = pauseMsBefore(attempt, failure.retryAfterMs, { backoffMs, retryAfterMsMax });
  if (pauseMs === undefined || requests?.mayWait(pauseMs) === false) throw failure;
  const signal = AbortSignal.any([io.stream.signal, io.cancelSignal]);
  // A cancel ends the pause; the next attempt sees it and makes no call.
  await delay(pauseMs, undefined, { signal }).catch(() => undefined);
}
