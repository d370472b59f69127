/**
 * Both logs of one stream as this tab has seen them pass: what the client said and what the server said, with acknowledgements, replays and breaks.
 *
 * The caller hands in each frame with this tab's time. A frame adds a row at the end; an ack or a repetition marks the earlier row that it is about.
 *
 * Invariant: rows stand in the order in which their frames passed, and no more than `ROWS_MAX` are kept.
 */
import { fromBinary } from "../protocol/message.ts";
import type { ClientFrame, Durability, ServerFrame } from "../protocol/frames.ts";
import {
  type AgentClientMessage,
  AgentClientMessageSchema,
  type AgentServerMessage,
  AgentServerMessageSchema,
} from "../protocol/messages.ts";
import type { Traffic } from "../react/index.ts";

interface ChunkRow {
  readonly kind: "chunk";
  readonly seqno: number;
  readonly name: string;
  readonly bytes: number;
  readonly body: Uint8Array;
  readonly atMs: number;
  /** From its sending to its ack; undefined until then. */
  ackMs: number | undefined;
  /** How often it was sent. */
  times: number;
}

interface EventRow {
  readonly kind: "event";
  readonly eventId: number;
  /** The last one of a run that was replayed together. */
  untilId: number;
  name: string;
  bytes: number;
  body: Uint8Array;
  readonly atMs: number;
  /** It was in the log before this connection began. */
  readonly isReplay: boolean;
}

interface PulseRow {
  readonly kind: "pulse";
  readonly from: "client" | "server";
  readonly atMs: number;
}

export interface RuleRow {
  readonly kind: "rule";
  readonly text: string;
  readonly isBreak: boolean;
  readonly atMs: number;
  /** What was broken, and is whole with this. */
  readonly mends?: "connection" | "provider";
}

export type Row = ChunkRow | EventRow | PulseRow | RuleRow;

/**
 * A stretch of the turn: a step of the model, a time until it says something, a tool, a break. A break is a time without connection, or the moment in which the
 * provider's stream broke; its name then says how it was continued.
 */
export interface Span {
  readonly kind: "model" | "wait" | "tool" | "break";
  readonly id: string;
  readonly name: string;
  readonly fromMs: number;
  toMs: number | undefined;
}

export interface Facts {
  /** The last one. */
  events: number;
  /** Ids that were passed over, and such as came again. */
  missing: number;
  twice: number;
  chunks: number;
  acked: number;
  bytesIn: number;
  bytesOut: number;
  reconnects: number;
  epoch: number | undefined;
  durability: Durability | undefined;
  /** Of the last chunk that was acknowledged. */
  lagMs: number | undefined;
  end: string | undefined;
}

/** Older ones are let go, a tenth at a time. */
export const ROWS_MAX = 50_000;

export class StreamLog {
  readonly rows: Row[] = [];
  readonly spans: Span[] = [];
  /** Rows that were let go. */
  omitted = 0;
  /** Rises with each change. */
  version = 0;
  readonly facts: Facts = {
    events: 0,
    missing: 0,
    twice: 0,
    chunks: 0,
    acked: 0,
    bytesIn: 0,
    bytesOut: 0,
    reconnects: 0,
    epoch: undefined,
    durability: undefined,
    lagMs: undefined,
    end: undefined,
  };
  readonly #unacked = new Map<number, ChunkRow>();
  #connection = 0;
  #headAtWelcome = 0;
  #lostAtMs: number | undefined;

  put({ connection, news }: Traffic, nowMs: number): void {
    this.version++;
    switch (news.kind) {
      case "opened":
        this.#connection = connection;
        return;
      case "sent":
        this.#sent(news.frame, nowMs);
        return;
      case "received":
        if (connection === this.#connection) this.#received(news.frame, nowMs);
        return;
      case "closed":
        if (connection === this.#connection) this.#lost(news.reason ?? "", nowMs);
    }
  }

  #sent(frame: ClientFrame, nowMs: number): void {
    switch (frame.kind) {
      case "attach":
        if (frame.firstChunk !== undefined) this.#chunk(0, frame.firstChunk, nowMs);
        return;
      case "chunk":
        this.#chunk(frame.seqno, frame.body, nowMs);
        return;
      case "close":
        this.#chunk(frame.seqno, NOTHING, nowMs, "close");
        return;
      case "abort":
        this.#add({ kind: "rule", text: "stop", isBreak: false, atMs: nowMs });
        return;
      case "heartbeat":
        this.#add({ kind: "pulse", from: "client", atMs: nowMs });
    }
  }

  #chunk(seqno: number, body: Uint8Array, atMs: number, name = chunkName(decodedChunk(body))): void {
    const bytes = body.length;
    this.facts.bytesOut += bytes;
    const again = this.#unacked.get(seqno);
    const times = (again?.times ?? 0) + 1;
    const row: ChunkRow = { kind: "chunk", seqno, name, bytes, body, atMs, ackMs: undefined, times };
    this.#unacked.set(seqno, row);
    this.facts.chunks = Math.max(this.facts.chunks, seqno + 1);
    this.#add(row);
  }

  #acked(below: number, nowMs: number): void {
    this.facts.acked = Math.max(this.facts.acked, below);
    for (const [seqno, row] of this.#unacked) {
      if (seqno >= below) continue;
      row.ackMs = nowMs - row.atMs;
      this.facts.lagMs = row.ackMs;
      this.#unacked.delete(seqno);
    }
  }

  #received(frame: ServerFrame, nowMs: number): void {
    switch (frame.kind) {
      case "welcome": {
        const { eventHead, writerEpoch, durability, degraded } = frame;
        this.#headAtWelcome = eventHead;
        Object.assign(this.facts, { epoch: writerEpoch, durability });
        const where = `epoch ${writerEpoch}, ${degraded ? "degraded" : durability}, ${eventHead} in the log`;
        this.#back(where, nowMs);
        this.#acked(frame.nextSeqno, nowMs);
        return;
      }
      case "event":
        this.#event(frame.eventId, frame.body, frame.end, nowMs);
        return;
      case "ack":
        this.#acked(frame.seqno + 1, nowMs);
        return;
      case "heartbeat":
        this.#add({ kind: "pulse", from: "server", atMs: nowMs });
        return;
      case "error":
        this.#add({ kind: "rule", text: `refused: ${frame.code}`, isBreak: true, atMs: nowMs });
        return;
      case "durability_lost":
        this.#add({
          kind: "rule",
          text: `the store failed behind ${frame.head}`,
          isBreak: true,
          atMs: nowMs,
        });
    }
  }

  #back(where: string, nowMs: number): void {
    const lostAtMs = this.#lostAtMs;
    if (lostAtMs !== undefined) this.facts.reconnects++;
    const how = lostAtMs === undefined ? "connected" : `back after ${shownMs(nowMs - lostAtMs)}`;
    const mended = lostAtMs === undefined ? {} : { mends: "connection" as const };
    this.#add({ kind: "rule", text: `${how}, ${where}`, isBreak: false, atMs: nowMs, ...mended });
    this.#endSpan("break", nowMs);
    this.#lostAtMs = undefined;
  }

  #lost(reason: string, nowMs: number): void {
    if (this.facts.end !== undefined || this.#lostAtMs !== undefined || this.facts.epoch === undefined)
      return;
    this.#lostAtMs = nowMs;
    const why = reason === "" ? "" : `: ${reason.replaceAll("_", " ")}`;
    this.#add({ kind: "rule", text: `cut${why}`, isBreak: true, atMs: nowMs });
    this.#beginSpan("break", "no connection", nowMs);
  }

  #event(eventId: number, body: Uint8Array, end: string | undefined, atMs: number): void {
    const isReplay = eventId <= this.#headAtWelcome;
    const message = decoded(body);
    const name = end === undefined ? nameOf(message) : `end: ${end}`;
    const bytes = body.length;
    if (eventId <= this.facts.events) this.facts.twice++;
    // A tab that continues from its own snapshot begins behind it.
    else if (this.facts.events > 0) this.facts.missing += eventId - this.facts.events - 1;
    this.facts.events = Math.max(this.facts.events, eventId);
    this.facts.bytesIn += bytes;
    if (end !== undefined) this.facts.end = end;
    const last = this.rows.at(-1);
    if (isReplay && last?.kind === "event" && last.isReplay && last.untilId === eventId - 1) {
      Object.assign(last, { untilId: eventId, name, body, bytes: last.bytes + bytes });
    } else this.#add({ kind: "event", eventId, untilId: eventId, name, bytes, body, atMs, isReplay });
    this.#look(message, atMs);
    if (end !== undefined) for (const span of this.spans) span.toMs ??= atMs;
  }

  /** What the timeline shows of it. */
  #look(message: AgentServerMessage | undefined, nowMs: number): void {
    if (message?.message.case !== "interactionUpdate") return;
    const { message: update } = message.message.value;
    switch (update.case) {
      case "textDelta":
      case "thinkingDelta":
      case "partialToolCall":
        this.#endSpan("wait", nowMs);
        return;
      case "stepStarted": {
        const { step, model } = update.value;
        this.#endSpan("model", nowMs);
        this.#beginSpan("model", `step ${step}: ${model}`, nowMs);
        this.#beginSpan("wait", "waiting for the model", nowMs);
        return;
      }
      case "stepCompleted":
        this.#endSpan("wait", nowMs);
        this.#endSpan("model", nowMs);
        return;
      case "toolCallStarted": {
        const { tool = "", toolCallId = "" } = update.value.toolCall ?? {};
        this.spans.push({ kind: "tool", id: toolCallId, name: tool, fromMs: nowMs, toMs: undefined });
        return;
      }
      case "toolCallCompleted":
        this.#endSpan(update.value.toolCall?.toolCallId ?? "", nowMs);
        return;
      case "stepRestarted":
        this.#mend("the step begins anew", nowMs);
        return;
      case "stepContinued":
        this.#mend("the answer broke off; it was continued", nowMs);
        return;
      case "stepFallback":
        this.#mend(`goes on with ${update.value.model}`, nowMs);
        return;
      default:
    }
  }

  #mend(text: string, atMs: number): void {
    this.#add({ kind: "rule", text, isBreak: true, atMs, mends: "provider" });
    this.spans.push({ kind: "break", id: "provider", name: text, fromMs: atMs, toMs: atMs });
    this.#endSpan("wait", atMs);
    this.#beginSpan("wait", "waiting for the model", atMs);
  }

  #beginSpan(kind: "model" | "wait" | "break", name: string, fromMs: number): void {
    this.spans.push({ kind, id: kind, name, fromMs, toMs: undefined });
  }

  #endSpan(id: string, nowMs: number): void {
    for (const span of this.spans) if (span.id === id) span.toMs ??= nowMs;
  }

  #add(row: Row): void {
    this.rows.push(row);
    if (this.rows.length <= ROWS_MAX) return;
    const count = ROWS_MAX / 10;
    this.rows.splice(0, count);
    this.omitted += count;
  }
}

const NOTHING = new Uint8Array();

export function shownMs(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}

/** Undefined for what is no message of this version. */
export function decoded(body: Uint8Array): AgentServerMessage | undefined {
  return orNothing(() => fromBinary(AgentServerMessageSchema, body));
}

/** The same of what the client said. */
export function decodedChunk(body: Uint8Array): AgentClientMessage | undefined {
  return orNothing(() => fromBinary(AgentClientMessageSchema, body));
}

function orNothing<Message>(read: () => Message): Message | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

function chunkName(message: AgentClientMessage | undefined): string {
  const kind = message?.message.case;
  return kind === undefined ? "unknown" : CHUNK_NAMES[kind];
}

const CHUNK_NAMES = {
  runRequest: "run",
  execClientMessage: "tool result",
  execClientControlMessage: "tool control",
  kvClientMessage: "blob",
  conversationAction: "action",
  interactionResponse: "answer",
  clientHeartbeat: "heartbeat",
} as const;

function nameOf(message: AgentServerMessage | undefined): string {
  const { message: outer } = message ?? {};
  if (outer?.case === undefined) return "unknown";
  const inner = outer.case === "interactionUpdate" ? outer.value.message.case : undefined;
  return inWords(inner ?? NAMES[outer.case]);
}

const NAMES = {
  interactionUpdate: "update",
  interactionQuery: "question",
  conversationCheckpointUpdate: "checkpoint",
  kvServerMessage: "blob",
  execServerMessage: "tool request",
  execServerControlMessage: "tool control",
} as const;

/** `textDelta` is two words. */
function inWords(name: string): string {
  return name.replaceAll(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase();
}
