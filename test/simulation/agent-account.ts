/**
 * What is known of one turn from its two logs alone, and the rules that it must keep while they grow.
 *
 * A reader that rolls back as `step_restarted` says must end up with what `step_completed` says, step by step.
 */
import { fromBinary } from "../../src/protocol/message.ts";
import { type ConversationState, type TurnEndReason, TurnBlobSchema } from "../../src/protocol/messages.ts";
import { STEP_RESTARTS_MAX } from "../../src/turn/attempts.ts";
import { fail } from "./log-checks.ts";

interface OpenStep {
  readonly step: number;
  readonly sinceEvent: number;
  readonly pieces: { readonly eventId: number; readonly text: string; readonly hostEpoch: number }[];
  readonly calls: {
    readonly eventId: number;
    readonly toolCallId: string;
    readonly execIds: readonly string[];
  }[];
  restarts: number;
}

export class TurnAccount {
  readonly idempotencyKey: string;
  /** The texts of the finished steps. */
  readonly texts: string[] = [];
  end: TurnEndReason | undefined;
  restarts = 0;
  lastCheckpoint: ConversationState | undefined;
  #open: OpenStep | undefined;
  readonly #planned = new Set<string>();
  /** The event that asked for each exec. */
  readonly #issued = new Map<string, number>();
  isClosed = false;
  readonly #replies = new Map<string, string>();
  readonly #over = new Set<string>();
  readonly #blobs = new Map<string, Uint8Array>();
  readonly #sets = new Map<number, string>();
  readonly #kept = new Set<string>();
  /** What the user said, and how much of it the model was told. */
  readonly #said: string[] = [];
  #appended = 0;
  readonly #pieces = new Map<string, string[]>();
  readonly #relayed = new Map<string, number>();
  readonly #asked = new Set<string>();
  /** The user runs a command: the model has no part in the turn. */
  isCommand = false;
  conversationId = "";
  /** What was shown of a step cannot be taken back where it is shown. */
  isShownFinal = false;
  isCancelled = false;
  /** The host epoch in which the turn ended. */
  endedBy: number | undefined;
  #lastCalls = 0;
  /** How many tool calls all steps so far have, and how many of them are over. */
  #calls = 0;

  constructor(idempotencyKey: string) {
    this.idempotencyKey = idempotencyKey;
  }

  get steps(): number {
    return this.texts.length;
  }

  /** The execs and how each ended. */
  get outcomes(): ReadonlyMap<string, string> {
    return this.#replies;
  }

  get execs(): ReadonlyMap<string, number> {
    return this.#issued;
  }

  /** It has its outcome: from the client, or because the client that could give one is gone (D2); or it was never asked for. */
  isSettled(execId: string, takenOverAt: number): boolean {
    const eventId = this.#issued.get(execId) ?? 0;
    return this.#replies.has(execId) || this.isClosed || eventId <= takenOverAt;
  }

  stepStarted(eventId: number, step: number): void {
    if (this.#open !== undefined) fail("C0", "a step began within a step");
    if (this.isCommand && step > 0) fail("C1", "a command of the user's runs again");
    if (step !== this.steps) fail("C0", `step ${step} began after ${this.steps} steps`);
    if (this.#over.size !== this.#calls)
      fail("C0", `step ${step} began before the calls before it were over`);
    this.#open = { step, sinceEvent: eventId, pieces: [], calls: [], restarts: 0 };
  }

  /** The text of the step that is under way. */
  get openText(): string {
    return this.#open?.pieces.map(({ text }) => text).join("") ?? "";
  }

  /** A client that cannot take text back has lost its connection when another host begins a step anew, and while the same one runs it, it has not. */
  stepRestarted(step: number, rollbackTo: number, hostEpoch: number): void {
    const open = this.#open;
    if (open?.step !== step) return fail("C0", `step ${step} was restarted and is not under way`);
    if (++open.restarts > STEP_RESTARTS_MAX) fail("F1", "a step was restarted more than three times");
    this.restarts++;
    const taken = this.#rollBack(open, rollbackTo);
    if (this.isShownFinal && taken.length > 0 && taken.every((piece) => piece.hostEpoch === hostEpoch))
      fail("G1", "text that was shown for good is taken back");
  }

  /** The text stays, and what came behind it does not count. */
  stepContinued(step: number, rollbackTo: number): void {
    const open = this.#open;
    if (open?.step !== step) return fail("C0", `step ${step} was continued and is not under way`);
    if (open.pieces.length === 0) fail("G1", "a step without text is continued");
    if (this.#rollBack(open, rollbackTo).length > 0)
      fail("G1", "a step that is continued takes back its text");
    if (open.calls.length > 0) fail("G3", "a call of the generation before counts behind a join");
  }

  /** Returns the text that is taken back. */
  #rollBack(open: OpenStep, rollbackTo: number): OpenStep["pieces"] {
    if (rollbackTo < open.sinceEvent) fail("B3", "a restarted step takes back what was before it");
    const taken = open.pieces.filter(({ eventId }) => eventId > rollbackTo);
    for (const list of [open.pieces, open.calls]) {
      while ((list.at(-1)?.eventId ?? 0) > rollbackTo) list.pop();
    }
    return taken;
  }

  wrote(eventId: number, text: string, hostEpoch: number): void {
    const { pieces } = this.#open ?? fail("C0", "text came outside of a step");
    pieces.push({ eventId, text, hostEpoch });
  }

  planned(eventId: number, toolCallId: string, execIds: readonly string[]): void {
    const { calls } = this.#open ?? fail("C0", "a tool call came outside of a step");
    calls.push({ eventId, toolCallId, execIds });
  }

  stepCompleted(step: number, text: string, calls: number): void {
    const open = this.#open;
    if (open?.step !== step) return fail("C0", `step ${step} was completed and is not under way`);
    const shown = open.pieces.map((piece) => piece.text).join("");
    if (shown !== text) fail("B3", `a reader has "${shown}" where the step says "${text}"`);
    if (open.calls.length !== calls) fail("B3", `a reader has ${open.calls.length} calls, the step ${calls}`);
    this.#open = undefined;
    this.#calls += calls;
    this.#lastCalls = calls;
    this.texts.push(text);
    for (const { execIds } of open.calls) for (const execId of execIds) this.#planned.add(execId);
  }

  issued(execId: string, eventId: number, takenOverAt: number): void {
    if (this.#open !== undefined) fail("C0", `exec ${execId} was issued before its step was complete`);
    if (this.#issued.has(execId)) fail("A8", `exec ${execId} was asked for twice`);
    const first = execId.replace(/\.write$/, "");
    if (!this.#planned.has(first)) fail("C0", `exec ${execId} is of no finished step`);
    if (first !== execId && !this.isSettled(first, takenOverAt))
      fail("C0", `exec ${execId} did not wait for its read`);
    this.#issued.set(execId, eventId);
  }

  partial(execId: string, text: string | undefined): void {
    if (this.#replies.has(execId)) fail("A8", `exec ${execId} said something after its result`);
    if (text !== undefined) this.#pieces.set(execId, [...(this.#pieces.get(execId) ?? []), text]);
  }

  /** Readers are told what an exec said: all of it, in order, once. */
  relayed(execId: string, text: string): void {
    const count = this.#relayed.get(execId) ?? 0;
    const said = this.#pieces.get(execId)?.[count];
    if (said !== text) fail("B4", `readers are told that exec ${execId} said ${text}, and it said ${said}`);
    this.#relayed.set(execId, count + 1);
  }

  said(text: string): void {
    this.#said.push(text);
  }

  /** The model is told what the user said: all of it, in order, once. */
  appended(text: string): void {
    const said = this.#said[this.#appended++];
    if (said !== text) fail("A1", `the model is told "${text}" where the user said "${said}"`);
  }

  askedUser(toolCallId: string): void {
    const id = `${this.steps} ${toolCallId}`;
    if (this.#asked.has(id)) fail("A8", `the user is asked twice for call ${id}`);
    this.#asked.add(id);
  }

  summed(text: string): void {
    if (this.texts.at(-1) !== text) fail("B3", "a summary is not what the model said");
  }

  /** A turn is complete behind an answer, which asks for nothing more. */
  completed(): void {
    if (this.#open !== undefined) fail("C0", "a turn is complete within a step");
    if (this.#lastCalls > 0 && !this.isCommand)
      fail("C0", "a turn is complete before the model has answered");
    if (this.#over.size !== this.#calls) fail("C1", "a turn is complete before its calls are over");
  }

  replied(execId: string, outcome: string): void {
    if (!this.#issued.has(execId)) fail("C0", `exec ${execId} was answered and never asked for`);
    if (this.#replies.has(execId)) fail("A8", `exec ${execId} has two results`);
    this.#replies.set(execId, outcome);
  }

  /** Another journal writes from here on: nobody will answer what was asked before (D2). */
  takenOver(): void {
    for (const execId of this.#issued.keys()) {
      if (!this.#replies.has(execId)) this.#replies.set(execId, "unknown");
    }
  }

  callOver(toolCallId: string, execIds: readonly string[], takenOverAt: number): void {
    const id = `${this.steps} ${toolCallId}`;
    if (this.#over.has(id)) fail("C1", `call ${id} is over twice`);
    for (const execId of execIds) {
      if (!this.isSettled(execId, takenOverAt)) fail("C1", `call ${id} is over before exec ${execId}`);
    }
    this.#over.add(id);
  }

  askedToKeep(id: number, blobId: string, bytes: Uint8Array | undefined): void {
    if (this.#sets.has(id)) fail("A8", `kv request ${id} was made twice`);
    this.#sets.set(id, blobId);
    if (bytes !== undefined) this.#blobs.set(blobId, bytes);
  }

  kept(id: number): void {
    this.#kept.add(this.#sets.get(id) ?? fail("B2", `kv request ${id} was answered and never made`));
  }

  /** The conversation before this turn names them: they were kept then. */
  keptBefore(blobIds: readonly string[]): void {
    for (const blobId of blobIds) this.#kept.add(blobId);
  }

  bytesOf(blobId: string): Uint8Array | undefined {
    return this.#blobs.get(blobId);
  }

  /** Whatever a checkpoint names, the client has said that it keeps it; blobs of earlier turns were named before. */
  checkpoint(blobIds: readonly string[], turns: readonly string[]): void {
    const nested = turns.flatMap((blobId) => stepsOf(this.#blobs.get(blobId)));
    for (const blobId of [...blobIds, ...nested]) {
      const isOwn = [...this.#sets.values()].includes(blobId);
      if (isOwn && !this.#kept.has(blobId))
        fail("C4", "a checkpoint names a blob that the client has not kept yet");
    }
  }
}

function stepsOf(turn: Uint8Array | undefined): readonly string[] {
  const { turn: found } = turn === undefined ? { turn: undefined } : fromBinary(TurnBlobSchema, turn);
  if (found?.case !== "agentTurn") return [];
  const { userMessage, steps } = found.value;
  return [userMessage, ...steps].map((id) => Buffer.from(id).toString("hex"));
}
