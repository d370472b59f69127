/**
 * A session as the reference knows it: which states it may be in, by what clients have been shown of it and by the clocks.
 *
 *     generating -> parked     the answer ends with tool calls
 *     generating -> finished   it ends without
 *     parked     -> generating the results of all calls came
 *     any of them -> gone      stopped, abandoned for the grace period, expired, evicted
 */
import {
  type Clock,
  type RefAnswer,
  type ReferenceLimits,
  SLACK_MS,
  WRITTEN_MS,
} from "./reference-answers.ts";
import type { LostConversations } from "./reference-conversations.ts";
import { canonical, type SimCall, type SimContext } from "./messages.ts";

/** A start that finds the whole answer in its log has written the session's row by then. */
const STARTED_MS = 5_000;

export type SessionState = "generating" | "parked" | "finished" | "gone";

export interface SessionFacts {
  readonly streamId: string;
  readonly principal: string;
  readonly conversationId: string;
  readonly model: string;
  readonly context: SimContext;
  /** The provider may have refused its prompt. */
  readonly mayBeRefused: () => boolean;
  readonly lost: Pick<LostConversations, "isLost" | "isForgotten">;
}

export class RefSession {
  readonly facts: SessionFacts;
  /** The answer under way, or the last one. */
  last: RefAnswer;
  /** What its client has seen, once an end was shown. */
  history: string | undefined;
  pending: readonly SimCall[] = [];
  /** A process died since its last answer began. */
  isResumed = false;
  /** Those that may have begun to wait for tools after this one did: so many of them crowd it out. */
  rivals = new Set<RefSession>();
  /** Its principal's open streams may have been used up while it waited. */
  mayBeCrowdedOut = false;
  /** By the world's clock: since when it is stopped for good. */
  stoppedMs = Infinity;
  /** Its stream is gone. */
  isLost = false;
  /** Something ended its turn, or may have. */
  mayHaveEnded = false;
  readonly #limits: ReferenceLimits;
  #states = new Set<SessionState>(["generating"]);
  readonly #readers = new Set<object>();
  /** By the world's clock. */
  #leftMs: number;
  /** When it began to wait, by the machine's clock: not before the one, and not after the other. */
  #waitsFromMs = 0;
  #waitsSinceMs = 0;
  /** By the world's clock: from then on its row is on the disk, which counts its time from when it is written. */
  #writtenByMs = 0;

  constructor(facts: SessionFacts, first: RefAnswer, limits: ReferenceLimits, now: Clock) {
    this.facts = facts;
    this.last = first;
    this.#limits = limits;
    this.#leftMs = now.steadyMs;
  }

  /** Another answer of the turn is under way. */
  goOn(answer: RefAnswer, now: Clock): void {
    this.last = answer;
    this.history = undefined;
    this.pending = [];
    this.isResumed = false;
    this.#states = new Set(["generating"]);
    this.#leftMs = now.steadyMs;
  }

  /** A results request of a dead process has reached it: how far the answer is, and whether it was given up, is as unknown as before. */
  wentOnUnseen(answer: RefAnswer): void {
    this.last = answer;
    this.history = undefined;
    this.pending = [];
    this.#states.delete("parked");
    this.#states.add("generating");
  }

  /** A results request may have reached it before the process died. */
  mayHaveGoneOn(): void {
    if (this.#states.has("parked")) this.#states.add("generating");
  }

  enter(reader: object, now: Clock): void {
    this.#remember(now);
    this.#readers.add(reader);
  }

  leave(reader: object, now: Clock): void {
    if (this.#readers.delete(reader) && this.#readers.size === 0) this.#leftMs = now.steadyMs;
  }

  killed(now: Clock): void {
    this.#remember(now);
    this.#readers.clear();
    this.#leftMs = now.steadyMs;
    this.isResumed = true;
    if (now.steadyMs >= this.#writtenByMs) return;
    // The next start writes its row.
    this.#writtenByMs = now.steadyMs + STARTED_MS;
    this.#waitsSinceMs = Math.max(this.#waitsSinceMs, now.wallMs + STARTED_MS);
  }

  /** What its clock may have ended stays ended when the clock is set again. */
  #remember(now: Clock): void {
    if (this.#mayBeGivenUp(now)) this.#states.add("gone");
  }

  /** No client has read the answer under way for the grace period. */
  #mayBeGivenUp(now: Clock): boolean {
    return this.#states.has("generating") && this.unreadMs(now) >= this.#limits.graceMs - SLACK_MS;
  }

  /** A reader of its last answer was shown the end. */
  ended(how: "calls" | "completed" | "failed", calls: readonly SimCall[], text: string, now: Clock): void {
    if (this.history !== undefined) return;
    const gone: readonly SessionState[] = this.states(now).has("gone") ? ["gone"] : [];
    if (how === "failed") {
      this.#states = new Set(["gone"]);
      return;
    }
    const { messages } = this.last.asked.body;
    this.history = JSON.stringify(canonical([...messages, { role: "assistant", text, calls }]));
    this.pending = calls;
    this.#states = new Set([how === "calls" ? "parked" : "finished", ...gone]);
    this.#waitsFromMs = this.last.begunMs;
    this.#waitsSinceMs = now.wallMs;
    this.#writtenByMs = now.steadyMs + WRITTEN_MS;
  }

  /** The machine's clock was set: a row that is on its way has more time. */
  clockSet({ wallMs, steadyMs }: Clock): void {
    if (steadyMs < this.#writtenByMs) this.#waitsSinceMs = Math.max(this.#waitsSinceMs, wallMs);
  }

  /** Its stream is lost: it cannot be continued. */
  lost(): void {
    this.isLost = true;
    this.#states.add("gone");
  }

  /** A stop is on its way. */
  stopping(): void {
    this.mayHaveEnded = true;
    this.#states.add("gone");
  }

  /** The gateway said that it stopped; what it was before, it may have been at its end. */
  stopped(before: ReadonlySet<SessionState>, now: Clock): void {
    this.stoppedMs = now.steadyMs;
    const only = before.size === 1 ? [...before][0] : undefined;
    if (only === "finished") this.#states = new Set(["finished", "gone"]);
    else if (only === "parked") this.#states = new Set(["gone"]);
    else this.#states = new Set(["gone", "finished"]);
  }

  /** Those that it may be in. */
  states(now: Clock): ReadonlySet<SessionState> {
    const { lost, conversationId } = this.facts;
    const states = new Set<SessionState>(lost.isForgotten(conversationId, now) ? ["gone"] : this.#states);
    if (lost.isLost(conversationId)) states.add("gone");
    const { sessionTtlMs, parkedMax } = this.#limits;
    if (states.has("generating") && this.#readers.size === 0) {
      // It may have come to its pause since, and no client knows.
      states.add("parked").add("finished");
      if (this.#mayBeGivenUp(now)) states.add("gone");
      // One that sleeps after a restart makes room first.
      if (this.isResumed && this.mayBeCrowdedOut) states.add("gone");
    }
    // Its reader may be slow, and not know of the failure yet.
    if (states.has("generating") && this.facts.mayBeRefused()) states.add("gone");
    if (states.has("parked") || states.has("finished")) {
      if (now.wallMs - this.#waitsFromMs >= sessionTtlMs - SLACK_MS) states.add("gone");
      const isKnown = this.history !== undefined;
      if (isKnown && now.wallMs - this.#waitsSinceMs >= sessionTtlMs + SLACK_MS) {
        states.delete("parked");
        states.delete("finished");
      }
    }
    const isCrowded = this.mayBeCrowdedOut || this.rivals.size >= parkedMax;
    if (states.has("parked") && isCrowded) states.add("gone");
    if (states.has("gone")) this.mayHaveEnded = true;
    return states;
  }

  /** How long no client has read the answer under way. */
  unreadMs({ steadyMs }: Clock): number {
    return this.#readers.size > 0 ? 0 : steadyMs - this.#leftMs;
  }

  /** Whether it may hold an open stream. */
  mayBeOpen(now: Clock): boolean {
    const states = this.states(now);
    return states.has("generating") || states.has("parked");
  }
}
