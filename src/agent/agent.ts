/**
 * The agent as a server's application: every stream is one turn.
 *
 * However a turn ends, its last event says so, once: `turn_ended` with what it used and, if it failed, what failed.
 */
import { create, toBinary } from "@bufbuild/protobuf";
import {
  AgentServerMessageSchema,
  type Failure,
  FailureKind,
  FailureSchema,
  TurnEndReason,
} from "../protocol/messages.ts";
import type { Application, ApplicationStream } from "../server/application.ts";
import { BlobCache } from "./blobs.ts";
import type { Models } from "./model.ts";
import { DEFAULT_PATIENCE } from "./models/patience.ts";
import { type Ending, Turn, type TurnContext, TURN_LIMITS, type TurnLimits } from "./turn.ts";
import { failureOf, TurnFailure } from "./turn-failure.ts";
import { Stopped, TurnIo } from "./turn-io.ts";

export interface AgentOptions {
  readonly models: Models;
  readonly limits?: Partial<TurnLimits>;
  /** Of the conversations' blobs, in memory. Default: 64 MiB. */
  readonly cacheBytesMax?: number;
  /** For durations. Default: the process's clock. */
  readonly now?: () => number;
  /** The longest first pause before a step that its provider broke off begins anew. Default: 1 s. */
  readonly backoffMs?: number;
}

const CACHE_BYTES_MAX = 64 * 1024 * 1024;

export function createAgent(options: AgentOptions): Application {
  const context: TurnContext = {
    models: options.models,
    cache: new BlobCache(options.cacheBytesMax ?? CACHE_BYTES_MAX),
    limits: { ...TURN_LIMITS, ...options.limits },
    now: options.now ?? (() => performance.now()),
    backoffMs: options.backoffMs ?? DEFAULT_PATIENCE.backoffMs,
  };
  return (stream) => runTurn(context, stream);
}

type End = Ending | "aborted" | { readonly failure: Failure };

async function runTurn(context: TurnContext, stream: ApplicationStream): Promise<void> {
  const io = new TurnIo(stream, context.cache);
  let bug: Error | undefined;
  let end: End;
  try {
    await io.recover();
    if (io.log.hasEnded) return;
    end = await endOf(context, io);
  } catch (error) {
    end = endAfter(error, stream);
    const isForeseen = failureOf(error) !== undefined || end === "aborted";
    if (!isForeseen) bug = error instanceof Error ? error : new Error(String(error));
  }
  // The abort may have come after the last thing was done: it still wins (D3).
  if (stream.signal.aborted) end = "aborted";
  try {
    await stream.end(lastWord(io, end), typeof end === "object" ? "failed" : "completed");
  } catch (error) {
    // Another host has the stream: it will say how the turn ended.
    if (!stream.signal.aborted) throw error;
  }
  // What nobody foresaw is told to the host, once the client knows that it happened.
  if (bug !== undefined) throw bug;
}

async function endOf(context: TurnContext, io: TurnIo): Promise<End> {
  const { log } = io;
  await io.until(() => log.request !== undefined || log.violation !== undefined || log.isClosed);
  if (log.request === undefined)
    throw new TurnFailure("invalid_request", log.violation ?? "there is no request");
  const turn = new Turn(context, io, log.request);
  let end: End;
  try {
    end = await turn.work();
  } catch (error) {
    const failure = failureOf(error);
    if (failure === undefined || !turn.isLoaded) throw error;
    // What was done until then is part of the conversation: it can be continued.
    end = { failure };
  }
  await turn.keep();
  return end;
}

function endAfter(error: unknown, stream: ApplicationStream): End {
  if (error instanceof Stopped || stream.signal.aborted) return "aborted";
  const failure = failureOf(error);
  if (failure !== undefined) return { failure };
  const message = "the server made a mistake and could not go on with this turn";
  return { failure: create(FailureSchema, { kind: FailureKind.INTERNAL, message }) };
}

function lastWord(io: TurnIo, end: End): Uint8Array {
  const reason =
    typeof end === "object"
      ? TurnEndReason.FAILED
      : end === "completed"
        ? TurnEndReason.COMPLETED
        : TurnEndReason.ABORTED;
  const value = { ...io.log.usage, reason, ...(typeof end === "object" ? { failure: end.failure } : {}) };
  const update = { message: { case: "turnEnded", value } } as const;
  return toBinary(
    AgentServerMessageSchema,
    create(AgentServerMessageSchema, { message: { case: "interactionUpdate", value: update } }),
  );
}
