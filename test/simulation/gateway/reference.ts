/**
 * What each request to the gateway must get, said in the fewest words: the table of the gateway's matching as a model without a gateway.
 *
 *     answer X     it is a retry: the answer that it got before, attached to or told again
 *     results S    its results go into the turn of stream S, which waits for them
 *     next C       another turn of conversation C
 *     fresh        a stream of its own, with the whole history
 *     refused E    an error with that code
 *
 * A request takes its time, and the world changes meanwhile. So it is judged again at each change until the gateway has decided; what it
 * then gets must be one of the verdicts since the last request with the same body was decided, because those are taken one by one.
 */
import type { Answer } from "../../../src/gateway/http/index.ts";
import type { FramePlace } from "../../../src/gateway/openai/index.ts";
import { type Asked, type Clock, RefAnswer, type ReferenceLimits, SLACK_MS } from "./reference-answers.ts";
import { LostConversations } from "./reference-conversations.ts";
import { type Ghost, Ghosts, isEqual } from "./reference-ghosts.ts";
import { KEY_REUSED, NOT_FOUND, OTHER_ANSWER, STREAM_GONE, TOO_LARGE, TOO_MANY } from "./refusals.ts";
import { bringsResults, continues, retryIn, type Seen, tailOf } from "./reference-rules.ts";
import { RefSession } from "./reference-sessions.ts";
import { MODEL_IDS } from "./provider.ts";

export type Verdict = string;

/** A stop that was answered is durable; what is on its way to the model takes a moment. */
const STOPPED_MS = 50;

/** A request on its way. */
export interface Ticket {
  readonly asked: Asked;
  permitted: Set<Verdict>;
}

export interface ReferenceParts {
  readonly limits: ReferenceLimits;
  readonly now: () => Clock;
  readonly life: () => number;
  /** Whether the provider has refused a prompt of the conversation. */
  readonly isRefused: (conversationId: string) => boolean;
  /** Of a stream that was begun, by whom, for which conversation and in which life. */
  readonly streamOf: (
    streamId: string,
  ) => { principal: string; conversationId: string; life: number } | undefined;
}

export class Reference {
  readonly answers = new Map<string, RefAnswer>();
  readonly sessions = new Map<string, RefSession>();
  readonly #parts: ReferenceParts;
  readonly #tickets = new Set<Ticket>();
  /** Principals that ask for events, once for each request. */
  readonly #askers: string[] = [];
  readonly #ghosts = new Ghosts();
  readonly lost = new LostConversations();

  constructor(parts: ReferenceParts) {
    this.#parts = parts;
  }

  ask(asked: Asked): Ticket {
    const ticket: Ticket = { asked, permitted: new Set(this.#judge(asked)) };
    // The one before is decided first.
    this.#tickets.add(ticket);
    return ticket;
  }

  /** After each change: requests that are on their way may find it. */
  changed(): void {
    for (const { asked, permitted } of this.#tickets)
      for (const verdict of this.#judge(asked)) permitted.add(verdict);
  }

  /** Its log is gone: nothing of it can be continued, and none of its answers be told again. */
  streamLost(streamId: string): void {
    this.sessions.get(streamId)?.lost();
    for (const answer of this.answers.values())
      if (answer.streamId === streamId && answer.removed !== "yes") answer.removed = "maybe";
    this.changed();
  }

  refused(ticket: Ticket, code: string): Verdict {
    this.changed();
    const verdict = `refused ${code}`;
    const { principal } = ticket.asked;
    // Room is made for a stream before its first chunk is measured.
    if (verdict === TOO_LARGE && this.#isFull(principal, this.#parts.now())) this.#crowdOut(principal);
    this.#decided(ticket, verdict);
    return verdict;
  }

  /** It came to nothing, and its client has left. Returns the answers of which it may have woken one (G7). */
  left(ticket: Ticket): readonly string[] {
    const now = this.#parts.now();
    this.#tickets.delete(ticket);
    for (const answer of this.answers.values())
      if (isEqual(answer.asked, ticket.asked)) answer.mayBeLost(now);
    const { permitted, asked } = ticket;
    // Results may be in their turn by then.
    const own = [...this.sessions.values()].filter((session) => bringsResults(asked, session));
    for (const session of own) session.mayHaveGoneOn();
    if (own.length > 0) this.#ghosts.died([asked], now, this.#parts.life());
    this.#nextOf(ticket);
    return [...permitted].flatMap((verdict) => /^(?:answer )?(ghost|\S+\/\d+)$/.exec(verdict)?.[1] ?? []);
  }

  /** Returns what the request got. Throws when that is not what it must get. */
  answered(ticket: Ticket, answer: Answer): { readonly verdict: Verdict; readonly ref: RefAnswer } {
    this.changed();
    const verdict = this.#verdictOf(ticket.asked, answer);
    const isOneOf = ticket.permitted.has(verdict);
    if (!isOneOf) this.#decided(ticket, verdict);
    const ref = this.#apply(ticket.asked, answer, verdict);
    this.#decided(ticket, verdict);
    return { verdict, ref };
  }

  #decided(ticket: Ticket, verdict: Verdict): void {
    this.#tickets.delete(ticket);
    if (!ticket.permitted.has(verdict)) {
      const permitted = [...ticket.permitted].join(" or ");
      throw new Error(`a request got "${verdict}" instead of "${permitted}"`);
    }
    this.#nextOf(ticket);
  }

  /** Those of the same body wait for each other: only now the next one is looked at. */
  #nextOf(ticket: Ticket): void {
    for (const other of this.#tickets) {
      const isNext =
        other.asked.hash === ticket.asked.hash && other.asked.principal === ticket.asked.principal;
      if (isNext) other.permitted = new Set();
    }
    this.changed();
  }

  #verdictOf({ principal }: Asked, { streamId, head: { fromEvent } }: Answer): Verdict {
    const known = this.answers.get(idOf(streamId, fromEvent));
    const stream = this.#parts.streamOf(streamId);
    if (stream === undefined) throw new Error("an answer names a stream that was never begun");
    if (stream.principal !== principal) throw new Error("a principal got the answer of another one");
    if (known !== undefined) return `answer ${known.id}`;
    if (this.sessions.has(streamId)) return `results ${streamId.slice(-8)}`;
    if (fromEvent > 0) return "the middle of an unknown turn";
    if (stream.life < this.#parts.life()) return "ghost";
    const isKnown = [...this.sessions.values()].some(
      ({ facts }) => facts.conversationId === stream.conversationId,
    );
    return isKnown ? `next ${stream.conversationId.slice(0, 8)}` : "fresh";
  }

  /** What it got has happened. */
  #apply(asked: Asked, { streamId, head: { fromEvent } }: Answer, verdict: Verdict): RefAnswer {
    const { limits, life } = this.#parts;
    const now = this.#parts.now();
    const known = this.answers.get(idOf(streamId, fromEvent));
    if (known !== undefined) {
      const isTaken = asked.key === undefined && !(known.isContinued && known.isOpen);
      if (isTaken) known.take(now);
      return known;
    }
    const answer = new RefAnswer(asked, { streamId, fromEvent, life: life() }, limits, now);
    this.answers.set(idOf(streamId, fromEvent), answer);
    if (this.#ghosts.of(asked).length > 0) answer.doubtRetried();
    this.#ghosts.laid(asked);
    const before = this.sessions.get(streamId);
    // The turn has its results, and takes no others.
    for (const ticket of this.#tickets)
      if (before && ticket.asked !== asked && bringsResults(ticket.asked, before))
        ticket.permitted.delete(verdict);
    before?.goOn(answer, now);
    const conversationId = this.#parts.streamOf(streamId)?.conversationId ?? "";
    const { model, door, system, tools } = asked.body;
    const session =
      before ??
      new RefSession(
        {
          streamId,
          principal: asked.principal,
          conversationId,
          model,
          context: { door, system, tools },
          mayBeRefused: () => this.#parts.isRefused(conversationId),
          lost: this.lost,
        },
        answer,
        limits,
        now,
      );
    this.sessions.set(streamId, session);
    if (verdict === "ghost") answer.take(now);
    this.#crowd(session, now);
    return answer;
  }

  /** Another session is open: it may crowd out those that wait. */
  #crowd(session: RefSession, now: Clock): void {
    const own = [...this.sessions.values()].filter(
      (other) => other !== session && other.facts.principal === session.facts.principal,
    );
    session.rivals = new Set(own.filter((other) => other.states(now).has("generating")));
    for (const other of own) other.rivals.add(session);
    const open = own.filter((other) => other.mayBeOpen(now)).length;
    if (open + 1 + this.#underWay(session.facts.principal) <= this.#parts.limits.openStreamsMax) return;
    this.#crowdOut(session.facts.principal, session);
  }

  #crowdOut(principal: string, newcomer?: RefSession): void {
    for (const session of this.sessions.values())
      if (session !== newcomer && session.facts.principal === principal) session.mayBeCrowdedOut = true;
  }

  #underWay(principal: string): number {
    return [...this.#tickets].filter(({ asked }) => asked.principal === principal).length;
  }

  /** A principal asks for events; the returned function says that it is answered. */
  askEvents(principal: string): () => void {
    this.#askers.push(principal);
    return () => void this.#askers.splice(this.#askers.indexOf(principal), 1);
  }

  /** Undecided requests of dead processes whose results may be in the turn of this stream. */
  ghostsIn(streamId: string): readonly Ghost[] {
    const session = this.sessions.get(streamId);
    return session === undefined ? [] : this.#ghosts.where((asked) => bringsResults(asked, session));
  }

  /** The answer that `/events` tells. Is it the answer to such a request, it is known from now on; undefined: no request asked for it. */
  told({ streamId, head: { fromEvent } }: Answer): RefAnswer | undefined {
    const known = this.answers.get(idOf(streamId, fromEvent));
    const session = this.sessions.get(streamId);
    const ghost = this.ghostsIn(streamId).at(-1);
    if (known !== undefined || session === undefined || ghost === undefined) return known;
    if (fromEvent <= session.last.fromEvent) return undefined;
    const { asked, died, life } = ghost;
    const answer = new RefAnswer(asked, { streamId, fromEvent, life }, this.#parts.limits, died);
    answer.killed(this.#parts.now(), true);
    this.answers.set(idOf(streamId, fromEvent), answer);
    this.#ghosts.laid(asked);
    session.wentOnUnseen(answer);
    for (const other of this.sessions.values())
      if (other !== session && other.facts.principal === asked.principal) other.rivals.add(session);
    return answer;
  }

  /** What `GET /v1/streams/{id}/events` must get. */
  judgeEvents(principal: string, streamId: string, after: FramePlace | undefined): readonly Verdict[] {
    const now = this.#parts.now();
    const session = this.sessions.get(streamId);
    if (session?.facts.principal !== principal) return [NOT_FOUND];
    const { last } = session;
    const isOther = after !== undefined && after.answer !== last.fromEvent;
    const sure = isOther ? OTHER_ANSWER : `answer ${last.id}`;
    const isGoingOn = [...this.#tickets].some(({ asked }) => bringsResults(asked, session));
    const isGone = session.states(now).has("gone") || this.#isLogDoubtful(last);
    if (!isGone && !isGoingOn && !session.isResumed) return [sure];
    // Its log says which answer is the latest, or is gone as well.
    const own = [...this.answers.values()].filter((answer) => answer.streamId === streamId);
    return [sure, OTHER_ANSWER, NOT_FOUND, STREAM_GONE, ...own.map(({ id }) => `answer ${id}`)];
  }

  /** The provider is about to say more of an answer: some client may still want it (G4), and none has stopped it (D3). */
  checkPart(conversationId: string): void {
    const now = this.#parts.now();
    const own = [...this.sessions.values()].filter(({ facts }) => facts.conversationId === conversationId);
    const names = [conversationId.slice(0, 8), ...own.map(({ facts }) => facts.streamId.slice(-8))];
    const mayMean = (verdict: Verdict): boolean =>
      verdict === "ghost" || names.some((name) => verdict.includes(name));
    const isAsked =
      own.some(({ facts }) => this.#askers.includes(facts.principal)) ||
      [...this.#tickets].some(({ permitted }) => [...permitted].some(mayMean));
    if (own.length === 0 || isAsked) return;
    const running = own.filter((session) => now.steadyMs < session.stoppedMs + STOPPED_MS);
    if (running.length === 0) throw new Error("D3: a model says more, and its turn was stopped");
    const unreadMs = Math.min(...running.map((session) => session.unreadMs(now)));
    if (unreadMs > this.#parts.limits.graceMs + SLACK_MS)
      throw new Error("G4: a model says more, and no client has wanted it for longer than the grace period");
  }

  /** The process is dead. */
  killed(): void {
    const now = this.#parts.now();
    const lost = [...this.#tickets].map(({ asked }) => asked);
    this.#tickets.clear();
    this.#askers.length = 0;
    for (const answer of this.answers.values()) {
      answer.killed(
        now,
        lost.some((asked) => isEqual(asked, answer.asked)),
      );
    }
    for (const session of this.sessions.values()) {
      session.killed(now);
      if (lost.some((asked) => bringsResults(asked, session))) session.mayHaveGoneOn();
    }
    this.#ghosts.died(lost, now, this.#parts.life());
    this.lost.killed(now);
    this.changed();
  }

  #judge(asked: Asked): readonly Verdict[] {
    const verdicts = new Set<Verdict>();
    for (const verdict of asked.key === undefined ? this.#ofBody(asked) : this.#ofKey(asked)) {
      if (verdict !== "none") verdicts.add(verdict);
      else for (const begun of this.#begin(asked)) verdicts.add(begun);
    }
    const { principal, key, hash } = asked;
    if (this.#ghosts.of(asked).length > 0) verdicts.add("ghost");
    const isReused = (one: Asked): boolean =>
      one.principal === principal && one.key === key && one.hash !== hash;
    if (key !== undefined && this.#ghosts.where(isReused).length > 0) verdicts.add(KEY_REUSED);
    return [...verdicts];
  }

  #ofKey(asked: Asked): readonly Verdict[] {
    const { wallMs } = this.#parts.now();
    const { idempotencyTtlMs } = this.#parts.limits;
    const answer = [...this.answers.values()].findLast(
      (one) => one.asked.key === asked.key && one.asked.principal === asked.principal,
    );
    if (answer === undefined || answer.removed === "yes")
      return answer?.mayRefuse(asked) === true ? [KEY_REUSED, "none"] : ["none"];
    const ageMs = wallMs - answer.begunMs;
    if (ageMs >= idempotencyTtlMs + SLACK_MS) return ["none"];
    const isDoubtful =
      answer.removed === "maybe" || this.#mayBeRemoved(answer) || ageMs >= idempotencyTtlMs - SLACK_MS;
    if (answer.asked.hash !== asked.hash) return isDoubtful ? [KEY_REUSED, "none"] : [KEY_REUSED];
    return isDoubtful || this.#isLogDoubtful(answer)
      ? [`answer ${answer.id}`, "none"]
      : [`answer ${answer.id}`];
  }

  /** The rules of retries without a key, in each world that is possible. */
  #ofBody(asked: Asked): readonly Verdict[] {
    const { wallMs } = this.#parts.now();
    const answers = [...this.answers.values()].filter((answer) => isEqual(asked, answer.asked));
    let worlds: readonly (readonly Seen[])[] = [[]];
    for (const answer of answers) {
      const possible = answer.possible(wallMs, this.#mayBeRemoved(answer));
      worlds = possible.flatMap(({ delivery, isRetried }) =>
        delivery === "none" ? worlds : worlds.map((world) => world.concat({ answer, delivery, isRetried })),
      );
    }
    return [...new Set(worlds.flatMap((world) => retryIn(world, asked)))];
  }

  #begin(asked: Asked): readonly Verdict[] {
    if (!MODEL_IDS.some((id) => id === asked.body.model)) return ["refused model_not_found"];
    const now = this.#parts.now();
    const begun = asked.body.isHuge ? TOO_LARGE : "fresh";
    const fresh = this.#isFull(asked.principal, now) ? [begun, TOO_MANY] : [begun];
    if (asked.body.isHuge) return fresh;
    const session = [...this.sessions.values()].findLast((one) => continues(asked, one));
    if (session === undefined) return fresh;
    const { streamId, conversationId } = session.facts;
    const isResults = tailOf(asked).results.length > 0;
    const [state, verdict] = isResults
      ? (["parked", `results ${streamId.slice(-8)}`] as const)
      : (["finished", `next ${conversationId.slice(0, 8)}`] as const);
    const states = session.states(now);
    // It went on with just this request, or did not: the answer is the same.
    const isRepeated = this.#ghosts.of(asked).length > 0;
    if (!states.has(state)) return isRepeated && states.has("generating") ? [verdict, ...fresh] : fresh;
    // Of two requests with its results one gets the answer. The gateway may refuse the other one before that answer begins.
    const hasRival = [...this.#tickets].some(
      ({ asked: other }) => other !== asked && isResults && bringsResults(other, session),
    );
    const isSure =
      !hasRival && [...states].every((one) => one === state || (isRepeated && one === "generating"));
    if (isSure) return isResults || fresh.length === 1 ? [verdict] : [verdict, TOO_MANY];
    return [verdict, ...fresh];
  }

  /** Its session may have been stopped, and its rows with it. */
  #mayBeRemoved(answer: RefAnswer): boolean {
    const session = this.sessions.get(answer.streamId);
    // With its conversation all answers of it are forgotten.
    if (session !== undefined && this.lost.isLost(session.facts.conversationId)) return true;
    // One that no client wanted after a restart is given up before its log says that it was complete; a key finds it still.
    const isKept = answer.asked.key !== undefined || session?.isResumed !== true;
    if (session?.last !== answer || (answer.whole?.finish === "stop" && isKept)) return false;
    return session.states(this.#parts.now()).has("gone");
  }

  #isLogDoubtful(answer: RefAnswer): boolean {
    return this.#parts.now().wallMs - answer.begunMs >= this.#parts.limits.retentionMs - SLACK_MS;
  }

  #isFull(principal: string, now: Clock): boolean {
    const open = [...this.sessions.values()].filter(
      (session) => session.facts.principal === principal && session.mayBeOpen(now),
    );
    return open.length + this.#underWay(principal) >= this.#parts.limits.openStreamsMax;
  }
}

function idOf(streamId: string, fromEvent: number): string {
  return `${streamId} ${fromEvent}`;
}
