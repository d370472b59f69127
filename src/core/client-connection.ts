/**
 * How a client gets onto a connection and off it: connect, be welcomed, lose it, reconnect.
 *
 * Part of the machine in `client-stream.ts`; see there for the invariant.
 */
import { type ErrorCode, REMEDY_OF } from "../protocol/errors.ts";
import type { WelcomeFrame } from "../protocol/frames.ts";
import { PROTOCOL_VERSION } from "../protocol/limits.ts";
import { isWithinWindow } from "./auto-resume.ts";
import {
  decideRetry,
  earlierRetryMs,
  finish,
  type Flow,
  order,
  stepOutbox,
  stepRetry,
  stepStall,
  stepStop,
  stepTools,
} from "./client-flow.ts";
import type { Outcome } from "./journal.ts";
import * as stop from "./stop.ts";

/** Why a connection is over, as the peer, the transport or a clock says. */
export interface Loss {
  readonly code: ErrorCode;
  readonly message: string;
  readonly retryAfterMs: number | undefined;
  readonly nowMs: number;
  /** Jitter, at least 0 and below 1. */
  readonly random: number;
}

const TOO_OLD =
  "nothing happened on this stream for longer than retryLookbackWindowMs: resume(idempotencyKey) continues it";

export function connect(at: Flow, nowMs: number): void {
  const { state } = at;
  const connection = state.connection + 1;
  const isKnown = state.serverTimeMs !== undefined;
  // Only the very first attempt may carry chunk 0, and may be answered without durability (A5, D5).
  const isCloseFirst = state.isClosed && state.outbox.next === 1;
  const inline = state.fresh && state.outbox.next > 0 && !isCloseFirst;
  const abort = stop.isDue(state.stop);
  at.state = {
    ...state,
    connection,
    attachedAbort: abort,
    phase: "connecting",
    fresh: false,
    attachedFresh: state.fresh,
    inlineSent: inline ? 1 : 0,
    wakeAtMs: nowMs + state.options.attachTimeoutMs,
  };
  at.effects.push({
    kind: "connect",
    connection,
    inline,
    attach: {
      kind: "attach",
      protocolVersion: PROTOCOL_VERSION,
      mode: isKnown || state.takesOver || state.role === "reader" ? "resume" : "open",
      role: state.role,
      eventId: state.cursor.taken,
      journalId: state.journalId,
      fresh: state.fresh,
      abort,
      ...(state.peeks ? { peek: true } : {}),
      ...(state.keepsJournal || state.role === "reader" ? {} : { writerEpoch: state.writerEpoch }),
    },
  });
}

export function welcome(at: Flow, frame: WelcomeFrame, nowMs: number, random: number): void {
  const { options, autoResume, serverTimeMs } = at.state;
  // One bad node must not end a stream that others still have (D5).
  if (frame.degraded && !(options.allowDegraded && at.state.attachedFresh)) {
    lost(at, {
      code: "unavailable",
      message: "the server has no store and this stream needs one",
      retryAfterMs: undefined,
      nowMs,
      random,
    });
    return;
  }
  if (
    autoResume &&
    !at.state.wasLive &&
    !isWithinWindow(serverTimeMs, frame, options.retryLookbackWindowMs)
  ) {
    // Without an outcome: the server has the stream still, and a client that asks for it by its name gets it.
    at.state.isSkipped = true;
    finish(at, undefined, { code: "stream_ended", message: TOO_OLD });
    return;
  }
  at.state = {
    ...at.state,
    phase: "attached",
    wasLive: true,
    degraded: frame.degraded,
    durability: frame.durability,
    headAtWelcome: at.state.headAtWelcome ?? frame.eventHead,
    trouble: undefined,
    writerEpoch: frame.writerEpoch,
    isClosed: at.state.isClosed || frame.closed,
    serverTimeMs: frame.serverTimeMs,
    serverTimeAtMs: nowMs,
    wakeAtMs: nowMs + options.heartbeatIntervalMs,
  };
  order(at, frame.degraded ? { kind: "degraded" } : { kind: "attached", serverTimeMs: frame.serverTimeMs });
  stepRetry(at, { kind: "welcomed", nowMs });
  stepStall(at, { kind: "attached", heartbeatIntervalMs: frame.heartbeatIntervalMs, nowMs });
  stepStop(at, { kind: "told", aborted: frame.aborted });
  stepStop(at, { kind: "attached" });
  if (at.state.role === "writer") {
    greetWriter(at, frame, nowMs);
  }
}

function greetWriter(at: Flow, frame: WelcomeFrame, nowMs: number): void {
  const before = at.state.outbox.acked;
  const wasNumbered = at.state.outbox.numbered;
  stepOutbox(at, { kind: "welcome", nextSeqno: frame.nextSeqno, inline: at.state.inlineSent });
  if (wasNumbered && !frame.degraded && at.state.outbox.acked > before) {
    order(at, { kind: "acked", nextSeqno: at.state.outbox.acked });
    stepTools(at, { kind: "acked", nextSeqno: at.state.outbox.acked });
  }
  if (at.state.phase === "stopped") return;
  if (frame.aborted) stepTools(at, { kind: "aborted" });
  // The events of a degraded stream have no ids, and there was no writer before.
  stepTools(at, { kind: "attached", sinceEvent: frame.degraded ? -1 : frame.writerSinceEvent, nowMs });
}

export function lost(at: Flow, loss: Loss): void {
  if (at.state.phase !== "connecting" && at.state.phase !== "attached") return;
  detached(at);
  at.state.trouble = { code: loss.code, message: loss.message };
  const decision = decideRetry(at, loss);
  switch (decision.kind) {
    case "connect":
      if (at.state.degraded || !at.state.options.reliable) {
        // A degraded stream lives on its one connection (D5), and so does one that was not to be reliable.
        finish(at, "lost", {
          code: "connection_lost",
          message: "the connection broke, and this stream cannot be resumed",
        });
      } else {
        at.state.wakeAtMs = decision.atMs;
      }
      return;
    case "ask":
      at.state.phase = "asking";
      at.effects.push({ kind: "ask_credentials" });
      return;
    case "give_up":
      // Whatever else is over, a recorded wish to stop must have reached the server (D3).
      if (stop.isDue(at.state.stop) && !at.state.attachedAbort) at.state.wakeAtMs = loss.nowMs;
      else finish(at, outcomeOf(decision.code), decision);
      return;
  }
}

export function detached(at: Flow): void {
  at.effects.push({ kind: "disconnect" });
  at.state = { ...at.state, phase: "waiting", wakeAtMs: undefined };
  stepOutbox(at, { kind: "detached" });
  stepStop(at, { kind: "detached" });
  stepStall(at, { kind: "detached" });
}

/** What a final error means for the journal. Undefined: nothing is decided, it can be resumed later. */
function outcomeOf(code: ErrorCode): Outcome | undefined {
  if (code === "fenced") return "fenced";
  if (code === "unsupported_version") return undefined;
  const remedy = REMEDY_OF[code];
  return remedy === "stop" || remedy === "restart" ? "lost" : undefined;
}

/** The window counts from the last sign of life, not from the last welcome (D7). */
export function keepServerTime(at: Flow, nowMs: number): void {
  const { serverTimeMs, serverTimeAtMs, options, degraded } = at.state;
  const passedMs = nowMs - serverTimeAtMs;
  if (serverTimeMs === undefined || degraded || passedMs < options.retryLookbackWindowMs / 12) return;
  const estimate = serverTimeMs + passedMs;
  at.state = { ...at.state, serverTimeMs: estimate, serverTimeAtMs: nowMs };
  order(at, { kind: "attached", serverTimeMs: estimate });
}

export function wake(at: Flow, nowMs: number): void {
  if (at.state.phase !== "waiting" || at.state.isHeld) return;
  const atMs = earlierRetryMs(at, nowMs);
  if (atMs <= nowMs) connect(at, nowMs);
  else at.state.wakeAtMs = Math.min(at.state.wakeAtMs ?? atMs, atMs);
}
