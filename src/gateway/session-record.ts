/**
 * What the gateway keeps of a session: enough to continue after a restart, and to tell a continuation from anything else.
 *
 * The history itself is not here: it is the conversation's, named by the checkpoint. What the client has seen is one hash,
 * the lineage's head, so a record does not grow with the history.
 */
import { fromBinary, toBinary } from "../protocol/message.ts";
import { z } from "zod";
import { HoldfastError } from "../protocol/errors.ts";
import { type ConversationState, ConversationStateSchema } from "../protocol/messages.ts";
import { ANSWER, answerRef } from "./answer-ref.ts";
import { DOORS } from "./openai/index.ts";

const PENDING = z.object({
  /** As the client knows it. */
  toolId: z.string(),
  execId: z.string(),
  /** The exec's short number and the provider's id: a reply repeats them. */
  id: z.number(),
  toolCallId: z.string(),
});

/** Its stream names it: a session is one turn. Rows have values by their place here: a new one comes last. */
const SESSION = z.object({
  principal: z.string(),
  model: z.string(),
  conversationId: z.string(),
  /** generating: an answer is under way; parked: it waits for tool results; finished: for the next message. */
  state: z.enum(["generating", "parked", "finished"]),
  answer: ANSWER,
  /** System prompt and tools. Changed ones make a fresh stream. */
  context: z.string(),
  /** The lineage up to the request that is being, or was, answered. */
  requestHead: z.string(),
  /** The same with the answer; empty while it is not whole. */
  head: z.string(),
  pending: z.array(PENDING),
  /** The calls whose results came with the request that is being answered. */
  answered: z.array(PENDING).default([]),
  /** How many model calls the turn has made: it can be asked for no more than its limit. */
  steps: z.number(),
  /** How many sessions of its API key may wait for tools; undefined: as many as there is room for. */
  parkedMax: z.number().optional(),
  /** How long the answer is kept under way without a reader, when its client asked for longer than is usual. */
  patienceMs: z.number().optional(),
  /** The answer is wanted whether or not a client reads it. */
  isBackground: z.boolean().optional(),
  /** Of one in the background: how many there may be is counted by it. */
  apiKeyId: z.string().optional(),
  /** Of the request that is being, or was, answered: about what its turn holds in memory. */
  historyBytes: z.number().default(0),
  /** The rows by which a retry finds the answer. They go with the session when it comes to no good end. */
  responses: z.array(z.string()),
  /** The conversation after its last finished turn: an encoded ConversationState in base64. */
  checkpoint: z.string(),
  /** On shared tables: the process that generates its answer, or did. */
  owner: z.string().optional(),
  /** On shared tables: its owner took it over without the results that its answer begins with. They may have died with the owner before. */
  lacksResults: z.boolean().optional(),
  /** The event with which it began to wait: its next answer begins behind it. */
  pausedAt: z.number().optional(),
  createdMs: z.number(),
  updatedMs: z.number(),
});

export type PendingCall = z.infer<typeof PENDING>;
export type { AnswerRef } from "./answer-ref.ts";
export type SessionRecord = z.infer<typeof SESSION>;

/** A session that runs, waits for tools, or sleeps until it is wanted. */
export type OpenSession = Omit<SessionRecord, "state"> & {
  readonly state: SessionRecord["state"] | "sleeping";
};

const RESPONSE = z.object({
  answer: ANSWER,
  bodyHash: z.string(),
  /** A retry has asked for it. */
  isRetried: z.boolean(),
  /** It was asked for under an Idempotency-Key. */
  isKeyed: z.boolean().default(false),
  /** On shared tables: the process that gives it, and how often retries have asked for it. */
  owner: z.string().optional(),
  takes: z.number().default(0),
  /** What became of the response. */
  delivery: z.enum(["open", "flushed", "confirmed", "closed", "lost"]).default("open"),
});

/** The answer to a request, kept for its retries. */
export type ResponseRecord = z.infer<typeof RESPONSE>;

type Beginning = Omit<SessionRecord, "state" | "head" | "pending" | "answered" | "steps" | "updatedMs">;

/** A session whose first answer is under way. */
export function newSession(beginning: Beginning): SessionRecord {
  const updatedMs = beginning.createdMs;
  return { ...beginning, state: "generating", head: "", steps: 0, pending: [], answered: [], updatedMs };
}

/** In the order of their places. */
const NAMES = Object.keys(SESSION.shape);

export function encodeResponse(record: ResponseRecord): Uint8Array {
  return Buffer.from(JSON.stringify(record));
}

/** Values by their place in the schema, hashes in fewer characters, and nothing that follows from the rest: there is one such row for each answer. */
export function encodeSession(record: SessionRecord): Uint8Array {
  const { createdSeconds, fromEvent, streamId, includeUsage, door } = record.answer;
  const answer = [createdSeconds, fromEvent, streamId, includeUsage, door];
  const placed: Readonly<Record<string, unknown>> = record;
  const values = NAMES.map((name) => shortened(name === "answer" ? answer : placed[name]));
  return Buffer.from(JSON.stringify(values));
}

export function decodeSession(bytes: Uint8Array): SessionRecord {
  return decode(PLACED_SESSION, bytes, restored);
}

export function decodeResponse(bytes: Uint8Array): ResponseRecord {
  return decode(RESPONSE, bytes);
}

const PLACED_ANSWER = z.tuple([z.number(), z.number(), z.string(), z.boolean(), z.enum(DOORS)]);

/** JSON writes a missing value of a list as null. */
const PLACED_SESSION = z.array(z.unknown()).transform((values) => {
  const record = Object.fromEntries(NAMES.map((name, at) => [name, values[at] ?? undefined]));
  const [createdSeconds, fromEvent, streamId, includeUsage, door] = PLACED_ANSWER.parse(record["answer"]);
  const model = z.string().parse(record["model"]);
  const answer = answerRef({ streamId, model, fromEvent, includeUsage, door }, createdSeconds * 1_000);
  return SESSION.parse({ ...record, answer });
});

/** Marks bytes that were hexadecimal digits; a text that begins with it has it twice. */
const HEX = "#";
const DIGITS = /^[0-9a-f]{32,}$/;

function shortened(value: unknown): unknown {
  if (Array.isArray(value)) return value.length === 0 ? value : value.map(shortened);
  if (typeof value === "object" && value !== null)
    return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, shortened(field)]));
  if (typeof value !== "string") return value;
  if (value.length % 2 === 0 && DIGITS.test(value))
    return HEX + Buffer.from(value, "hex").toString("base64url");
  return value.startsWith(HEX) ? HEX + value : value;
}

function restored(value: unknown): unknown {
  if (typeof value !== "string" || !value.startsWith(HEX)) return value;
  return value.startsWith(HEX + HEX)
    ? value.slice(1)
    : Buffer.from(value.slice(1), "base64url").toString("hex");
}

function decode<Schema extends z.ZodType>(
  schema: Schema,
  bytes: Uint8Array,
  read = (value: unknown): unknown => value,
): z.infer<Schema> {
  try {
    return schema.parse(JSON.parse(new TextDecoder().decode(bytes), (_, value: unknown) => read(value)));
  } catch (cause) {
    throw new HoldfastError("stream_failed", "a row of the gateway is damaged", { cause });
  }
}

interface ClockLimits {
  readonly graceMs: number;
  readonly sessionTtlMs: number;
  readonly restMs: number;
}

/** What the clock of a session without a reader says, and when. */
interface Ring {
  readonly kind: "clock" | "rest";
  readonly delayMs: number;
}

/** An answer is kept for its grace period, a session that waits for its time; that one rests before, if it is not over by then. */
export function ringOf(
  clock: "grace" | "ttl" | "rest",
  { patienceMs = 0, isBackground = false, updatedMs }: SessionRecord,
  { graceMs, sessionTtlMs, restMs }: ClockLimits,
  nowMs: number,
): Ring {
  const waitedMs = Math.max(0, nowMs - updatedMs);
  // A client's patience begins when the client leaves; what runs in the background has a deadline.
  const patientMs = isBackground ? patienceMs - waitedMs : patienceMs;
  if (clock === "grace") return { kind: "clock", delayMs: Math.max(graceMs, patientMs) };
  const leftMs = Math.max(0, sessionTtlMs - waitedMs);
  return clock === "rest" && restMs < leftMs
    ? { kind: "rest", delayMs: restMs }
    : { kind: "clock", delayMs: leftMs };
}

export function encodedCheckpoint(state: ConversationState): string {
  return Buffer.from(toBinary(ConversationStateSchema, state)).toString("base64");
}

/** Where the next turn of its conversation begins; undefined when it has had none. */
export function checkpointOf({ checkpoint }: SessionRecord): ConversationState | undefined {
  return checkpoint === ""
    ? undefined
    : fromBinary(ConversationStateSchema, Buffer.from(checkpoint, "base64"));
}
