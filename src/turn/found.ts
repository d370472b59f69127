/**
 * What a run of a turn knows beside its two logs: bytes that lie in blobs, how its model's output broke off, the conversation as
 * it was read so far.
 *
 * None of it is a second truth: a restart loses it, and finds it out again from the logs and the blobs. The driver adds to it by
 * the functions here; `next.ts` decides by it.
 */
import type { Failure, UserMessage } from "../protocol/messages.ts";
import type { ChatMessage, ToolCallPart } from "../protocol/chat-message.ts";
import type { CallPlan, Plans } from "./call-plan.ts";
import type { Draft, ShownStep } from "./checkpoint.ts";
import type { Ending } from "./decision.ts";
import type { StepRecord } from "./facts.ts";
import type { Written } from "./written.ts";

/** The SHA-256 of bytes, in hexadecimal digits. */
export type IdOf = (bytes: Uint8Array) => string;

/** The model's output broke off, and this is what a new attempt depends on. */
export interface Broken {
  readonly failure: Failure;
  /** The same request may well succeed in a moment. */
  readonly isPassing: boolean;
  readonly retryAfterMs: number | undefined;
  /** Requests to providers that all attempts of the step have sent. */
  readonly requests: number;
  /** Since the first of them that this run sent. */
  readonly passedMs: number;
  /** Between 0 and 1, for the pause. */
  readonly random: number;
  /** It was the held call of an attempt that a restart cut off: no request was sent for it. */
  readonly wasHeld: boolean;
  /** The model was to write on behind the text, and did not. */
  readonly isUnjoined: boolean;
}

/** Whether a model writes on behind a text that it gets as the beginning of its answer. */
export type Prefills = "no" | "untried" | "proved";

/** What may be done about an answer that broke behind its first content. */
export interface Ways {
  /** `off`: nothing. `restart`: the step begins anew. `exact`: that, and what continues the answer and is proved to. */
  readonly continues: "off" | "restart" | "exact";
  readonly prefills: Prefills;
}

export const RESTART_ONLY: Ways = { continues: "restart", prefills: "no" };

export interface Opened {
  readonly plans: Plans;
  /** How much the model can read; 0 when that is not known. */
  readonly contextTokensMax: number;
  /** The server keeps the conversation: the client asked for it, and brought the conversation's key. */
  readonly keepsConversation: boolean;
  /** The model's calls may be held by a process that outlives this one. */
  readonly holdsCalls: boolean;
}

/** A step as far as it got. */
interface TakenStep {
  readonly record: StepRecord;
  readonly calls: readonly ToolCallPart[];
  /** What each call asks for, once it was asked: arguments are parsed once. */
  readonly plans: Map<number, CallPlan>;
}

export interface Conversation {
  /** From before the turn; undefined until it was read. */
  earlier: readonly ChatMessage[] | undefined;
  /** Of the turn. */
  readonly own: Written[];
  /** The blobs that files of the messages name. */
  readonly files: Set<string>;
  /** The same for display: what the user said, and the steps. */
  readonly shown: (ShownStep | UserMessage)[];
  /** How many entries of the log are among them. */
  taken: number;
  /** The last step, until its results are among the messages. */
  open: TakenStep | undefined;
}

export interface Found {
  readonly idOf: IdOf;
  /** Small blobs that stay in hand, by id. */
  readonly inHand: Map<string, Uint8Array>;
  /** What the driver has looked for, for the decision that is due; undefined: it is not there. */
  readonly fetched: Map<string, Uint8Array | undefined>;
  /** Blobs that later turns of the conversation will need: the driver takes them out, for its cache. */
  readonly learned: Map<string, Uint8Array>;
  /** The last event of the runs before this one; undefined when this is the first. */
  pastHead: number | undefined;
  opened: Opened | undefined;
  readonly conversation: Conversation;
  broken: Broken | undefined;
  /** The call of the attempt that was cut off is not held any more, or says something else than the log has of it. */
  isLost: boolean;
  /** Of the model that answers the open step. */
  ways: Ways;
  /** The turn cannot continue. */
  failure: Failure | undefined;
  /** Checkpoints whose blobs the client was asked to keep, oldest first. */
  drafts: Draft[];
  /** How many messages of the turn the newest one has. */
  drafted: number;
  /** Blobs that this run has put to the conversation that the server keeps. */
  readonly stored: Set<string>;
  /** The turn is over but for its last checkpoint. */
  closing: { readonly draft: Draft; readonly ending: Ending } | undefined;
}

export function newFound(idOf: IdOf): Found {
  return {
    idOf,
    inHand: new Map(),
    fetched: new Map(),
    learned: new Map(),
    pastHead: undefined,
    opened: undefined,
    conversation: { earlier: undefined, own: [], files: new Set(), shown: [], taken: 0, open: undefined },
    broken: undefined,
    isLost: false,
    ways: RESTART_ONLY,
    failure: undefined,
    drafts: [],
    drafted: 0,
    stored: new Set(),
    closing: undefined,
  };
}

/** Another attempt has begun. */
export function forgetBreak(found: Found): void {
  found.broken = undefined;
  found.isLost = false;
}

/** The bytes are those of the id. They need not be asked for from now on. */
export function learn(found: Found, blobId: string, bytes: Uint8Array): void {
  found.inHand.set(blobId, bytes);
  found.learned.set(blobId, bytes);
}

/** The client was asked to keep the blobs of a checkpoint; with an ending it is the turn's last one. */
export function prepared(found: Found, draft: Draft, ending: Ending | undefined): void {
  if (ending !== undefined) found.closing = { draft, ending };
  else found.drafts.push(draft);
  found.drafted = found.conversation.own.length;
}

/** The checkpoint is in the log: older ones are of no use any more. */
export function published(found: Found, draft: Draft): void {
  found.drafts = found.drafts.slice(found.drafts.indexOf(draft) + 1);
}
