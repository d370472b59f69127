/**
 * The agent as a server's application: every stream is one turn.
 *
 * However a turn ends, its last event says so, once: `turn_ended` with what it used and, if it failed, what failed.
 */
import { TurnEndReason } from "../protocol/messages.ts";
import type { Application, ApplicationStream } from "../server/application.ts";
import type { Ending } from "../turn/decision.ts";
import type { Facts } from "../turn/facts.ts";
import { failed } from "../turn/failure.ts";
import type { TurnLimits } from "../turn/next.ts";
import { BlobCache } from "./blobs.ts";
import type { Models } from "./model.ts";
import { DEFAULT_PATIENCE } from "./models/patience.ts";
import { SYSTEM_TIME } from "./models/upstream/time.ts";
import { pause, Turn, type TurnContext, type TurnEnvironment } from "./turn.ts";
import { failureOf } from "./turn-failure.ts";
import { Stopped, TurnIo } from "./turn-io.ts";
import { encodeServer, updateMessage } from "../turn/messages.ts";

export const TURN_LIMITS: TurnLimits = {
  stepsMax: 200,
  execsMax: 2_000,
  tokensMax: 10_000_000,
  sameStepsMax: 4,
  readBytesMax: 512 * 1024,
  backoffMs: DEFAULT_PATIENCE.backoffMs,
  retryAfterMsMax: DEFAULT_PATIENCE.retryAfterMsMax,
};

export interface AgentOptions {
  readonly models: Models;
  readonly limits?: Partial<TurnLimits>;
  /** Of the conversations' blobs, in memory. Default: 64 MiB. */
  readonly cacheBytesMax?: number;
  /** Default: the process's own clock, timers and randomness. */
  readonly environment?: TurnEnvironment;
  /** The longest first pause before a step that its provider broke off begins anew. Default: 1 s. */
  readonly backoffMs?: number;
}

const CACHE_BYTES_MAX = 64 * 1024 * 1024;

const SYSTEM: TurnEnvironment = { ...SYSTEM_TIME, random: () => Math.random() };

export function createAgent(options: AgentOptions): Application {
  const { backoffMs = TURN_LIMITS.backoffMs } = options;
  const context: TurnContext = {
    models: options.models,
    cache: new BlobCache(options.cacheBytesMax ?? CACHE_BYTES_MAX),
    limits: { ...TURN_LIMITS, backoffMs, ...options.limits },
    environment: options.environment ?? SYSTEM,
  };
  return (stream) => runTurn(context, stream);
}

async function runTurn(context: TurnContext, stream: ApplicationStream): Promise<void> {
  const { cache, environment } = context;
  const io = new TurnIo(stream, cache, () => pause(environment, 0));
  let bug: Error | undefined;
  let ending: Ending;
  try {
    await io.recover();
    if (io.facts.hasEnded) return;
    ending = await new Turn(context, io).run();
  } catch (error) {
    const isStopped = error instanceof Stopped || stream.signal.aborted;
    const failure = failureOf(error);
    if (!isStopped && failure === undefined) bug = error instanceof Error ? error : new Error(String(error));
    ending = isStopped
      ? { reason: "cancelled" }
      : failure === undefined
        ? failed("internal", "the server made a mistake and could not continue this turn")
        : { reason: "failed", failure };
  }
  // The abort may have come after the last thing was done: it still wins (D3).
  if (stream.signal.aborted) ending = { reason: "cancelled" };
  try {
    await stream.end(lastWord(io.facts, ending), ending.reason === "failed" ? "failed" : "completed");
  } catch (error) {
    // Another host has the stream: it will say how the turn ended.
    if (!stream.signal.aborted) throw error;
  }
  io.leave();
  // The host gets an unforeseen error once the client knows that it happened.
  if (bug !== undefined) throw bug;
}

const REASONS: Readonly<Record<Ending["reason"], TurnEndReason>> = {
  completed: TurnEndReason.COMPLETED,
  cancelled: TurnEndReason.ABORTED,
  failed: TurnEndReason.FAILED,
};

function lastWord({ usage }: Facts, ending: Ending): Uint8Array {
  const failure = ending.reason === "failed" ? { failure: ending.failure } : {};
  const value = { ...usage, reason: REASONS[ending.reason], ...failure };
  return encodeServer(updateMessage({ case: "turnEnded", value }));
}
