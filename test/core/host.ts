/**
 * A server's stream for the tests: who attaches, what is said and emitted, what the host wants.
 */
import * as hostState from "../../src/core/host-state.ts";
import { type Input, step } from "../../src/core/hosted-stream.ts";
import { stallLine } from "../../src/core/standstill.ts";
import { newStreamState, type StreamState } from "../../src/core/stream-state.ts";
import type { AttachFrame, ServerFrame } from "../../src/protocol/frames.ts";
import { PROTOCOL_VERSION } from "../../src/protocol/limits.ts";
import { last, run } from "./run.ts";

export type State = hostState.State;
export type Effect = hostState.Effect;

export const OPTIONS: hostState.Options = {
  ...hostState.DEFAULTS,
  retention: { retentionMs: 4_000_000, tombstoneMs: 9_000_000 },
};
export const macOf = (content: number): Uint8Array => Uint8Array.of(content);

/** A host that has just found the stream in its store. */
export function host(stored: Partial<StreamState> = {}, options = OPTIONS): State {
  const state = { ...newStreamState(Uint8Array.of(1), 0, 1), ...stored };
  const macs = Array.from({ length: state.nextSeqno }, (_, seqno) => macOf(seqno));
  return hostState.init(options, "fsync", state, macs);
}

export function attach(
  connection: number,
  journalId: string,
  more: Partial<AttachFrame> = {},
  firstMac?: Uint8Array,
): Extract<Input, { kind: "attach" }> {
  const frame: AttachFrame = {
    kind: "attach",
    protocolVersion: PROTOCOL_VERSION,
    mode: "resume",
    role: "writer",
    eventId: 0,
    journalId,
    fresh: false,
    abort: false,
    firstChunk: undefined,
    ...more,
  };
  return { kind: "attach", connection, frame, firstMac, resumed: true, nowMs: 0 };
}
/** A fresh stream's first attach, chunk 0 inside. */
export const opening = (connection: number, journalId: string): ReturnType<typeof attach> =>
  attach(connection, journalId, { mode: "open", fresh: true, firstChunk: Uint8Array.of(0) }, macOf(0));
export const read = (connection: number, eventId = 0): Input =>
  attach(connection, "reader", { role: "reader", eventId });
export function chunk(
  connection: number,
  seqno: number,
  more: { content?: number; writerEpoch?: number } = {},
): Input {
  const { content = seqno, writerEpoch = 1 } = more;
  const mac = macOf(content);
  return { kind: "chunk", connection, seqno, writerEpoch, mac, bytes: 1, isClose: false, nowMs: 0 };
}
export const committed = (nowMs = 0): Input => ({ kind: "committed", nowMs });
export const emit: Input = { kind: "emit" };
export const end: Input = { kind: "end", reason: "completed" };
export const tick = (nowMs: number): Input => ({ kind: "tick", nowMs });
export const closed = (connection: number): Input => ({ kind: "closed", connection });
export const abort = (connection: number, nowMs = 0): Input => ({ kind: "abort", connection, nowMs });
export const heartbeat = (
  connection: number,
  nowMs: number,
  runningExecIds: readonly string[] = [],
): Input => ({ kind: "heartbeat", connection, runningExecIds, nowMs });
export const written = (connection: number, through: number, waitingBytes = 0): Input => {
  return { kind: "sender", connection, input: { kind: "written", through, waitingBytes, nowMs: 0 } };
};

/** One writer, welcomed. */
export const hosted: State = run(step, host(), [attach(1, "laptop"), committed()])[0];

function frameWord(frame: ServerFrame): string {
  if (frame.kind === "error") return frame.code;
  if (frame.kind === "ack") return `ack ${String(frame.seqno)}`;
  return frame.kind;
}

function word(effect: Effect): string {
  switch (effect.kind) {
    case "send":
      return `${String(effect.connection)}: ${frameWord(effect.frame)}`;
    case "read":
      return `${String(effect.connection)}: read ${String(effect.from)}`;
    case "disconnect":
      return `${String(effect.connection)}: disconnect`;
    case "stage_chunk":
      return `stage chunk ${String(effect.seqno)}`;
    case "stall":
      return stallLine(effect.news);
    case "commit":
    case "gather":
    case "stage_event":
    case "refuse_event":
    case "tell_takeover":
    case "tell_abort":
    case "dropped":
      return effect.kind;
  }
}

/** What a host wanted, in words short enough to compare; `1: ack 0` is what connection 1 gets. */
export const words = (effects: readonly Effect[]): readonly string[] => effects.map(word);
export const after = (state: State, ...inputs: readonly Input[]): readonly string[] =>
  words(last(step, state, inputs)[1]);
export const through = (state: State, ...inputs: readonly Input[]): readonly string[] =>
  words(run(step, state, inputs)[1]);
export const stateAfter = (state: State, ...inputs: readonly Input[]): State => run(step, state, inputs)[0];
