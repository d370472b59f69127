/**
 * Where simulated clients reach the gateway: each request is shown to the reference first, and what it gets is judged.
 */
import { messagesDoor, responsesDoor } from "../../../src/gateway/http/door-http.ts";
import type { Answer } from "../../../src/gateway/http/index.ts";
import { type FramePlace, parseChatRequest, toGatewayError } from "../../../src/gateway/openai/index.ts";
import { fail } from "../log-checks.ts";
import type { Random, World } from "../world/index.ts";
import type { Account } from "./account.ts";
import type { AnswerChecks } from "./answer-checks.ts";
import { type Arrival, Exchange, type Shown, type Telling } from "./exchange.ts";
import type { Gateway } from "../../../src/gateway/index.ts";
import type { GatewayNode } from "./gateway-node.ts";
import type { Asked, Clock, RefAnswer, ReferenceLimits } from "./reference-answers.ts";
import type { Reference, Verdict } from "./reference.ts";
import { isStubborn } from "./stubborn.ts";

export interface FrontDoorParts {
  readonly world: World;
  readonly node: GatewayNode;
  readonly reference: Reference;
  readonly account: Account;
  readonly checks: AnswerChecks;
  readonly limits: ReferenceLimits;
  /** Sessions that wait let go of their streams. */
  readonly canRest: boolean;
  readonly now: () => Clock;
}

const EAGER_EVERY = 5;
const RULES = { allowRemoteImages: false };
/** The end of a turn is in the session and its rows by then. */
const HEARD_MS = 1_000;
const ARRIVALS: readonly (Arrival | undefined)[] = ["confirmed", "closed", "closed", "lost", undefined];

export class FrontDoor {
  /** A request is about to come. */
  onAsk: (asked: Asked) => void = () => undefined;
  /** A client is about to be shown the end of an answer. */
  onEnd: () => void = () => undefined;
  /**
   * One world in five: its clients stop turns past the gateway, ask again for what they stopped, and say more behind results. The number of the seed
   * says so: all others replay as they did.
   */
  readonly isEager: boolean;
  readonly #parts: FrontDoorParts;
  readonly #random: Random;
  readonly #open = new Set<Exchange>();
  #requests = 0;

  constructor(parts: FrontDoorParts) {
    this.#parts = parts;
    this.isEager = parts.world.seed % EAGER_EVERY === 0;
    this.#random = parts.world.random.fork("front door");
    parts.node.onDown = (why) => this.#down(why);
  }

  #down(why: "killed" | "closing"): void {
    for (const exchange of this.#open) {
      if (why === "killed") exchange.killed();
      else exchange.shutDown();
    }
    if (why !== "killed") return;
    this.#open.clear();
    const { reference } = this.#parts;
    reference.killed();
  }

  /** Undefined: nothing listens. */
  chat(asked: Asked, json: Readonly<Record<string, unknown>>, shown: Shown): Exchange | undefined {
    const { node, reference, account, limits, world } = this.#parts;
    const { gateway, life } = node;
    if (gateway === undefined) return undefined;
    this.onAsk(asked);
    const { principal, hash, key, retrySign } = asked;
    const requestId = `r${++this.#requests}`;
    world.trace(principal, "asks", requestId, `m${asked.body.marker}`);
    const ticket = reference.ask(asked);
    const got = account.want(life, asked);
    return this.#exchange({
      kind: "chat",
      shown,
      isStreamed: asked.body.stream,
      ask: (to, signal) => {
        const call = {
          principal,
          bodyHash: hash,
          bodyBytes: JSON.stringify(json).length,
          idempotencyKey: key,
          retrySign,
          parkedMax: limits.parkedMax,
          requestId,
          signal,
        };
        const { door } = asked.body;
        if (door === "chat") return to.chat({ ...call, request: parseChatRequest(json) });
        const { read } = door === "messages" ? messagesDoor(RULES) : responsesDoor(RULES, to.responses);
        return read(json, principal).then(({ request, call: more }) =>
          to.chat({ ...call, ...more, request }),
        );
      },
      decided: (answer) => {
        const { verdict, ref } = reference.answered(ticket, answer);
        got(ref.id);
        this.#noted(requestId, verdict);
        if (verdict.startsWith("answer "))
          world.hit(ref.whole === undefined ? "gateway.got.attached" : "gateway.got.replayed");
        return ref;
      },
      refused: (code) => {
        got();
        this.#noted(requestId, reference.refused(ticket, code));
      },
      left: () => got(...reference.left(ticket)),
    });
  }

  events(principal: string, shown: Shown, after: FramePlace | undefined): Exchange | undefined {
    const { node, reference, account } = this.#parts;
    const { gateway, life } = node;
    if (gateway === undefined) return undefined;
    const { streamId } = shown;
    const requestId = `e${++this.#requests}`;
    const judged = (): readonly Verdict[] => reference.judgeEvents(principal, streamId, after);
    const permitted = new Set(judged());
    const answered = reference.askEvents(principal);
    const last = reference.sessions.get(streamId)?.last;
    // An earlier answer is named in vain: the answer under way is not wanted for that.
    const isWanted = last !== undefined && (after === undefined || after.answer === last.fromEvent);
    // Results of a dead process may be in the turn: the answer to them is the latest then.
    const ghosts = after === undefined ? reference.ghostsIn(streamId) : [];
    const wanted = [...(isWanted ? [last.asked] : []), ...ghosts.map(({ asked }) => asked)];
    const gots = wanted.map((asked) => account.want(life, asked));
    const got = (...answers: readonly string[]): void => gots.forEach((one) => one(...answers));
    const unnamed = last === undefined ? [] : [last.id];
    const judge = (verdict: Verdict): void => {
      for (const later of judged()) permitted.add(later);
      if (!permitted.has(verdict))
        fail("matching", `/events got "${verdict}" instead of "${[...permitted].join(" or ")}"`);
      this.#noted(requestId, `events ${verdict}`);
    };
    return this.#exchange({
      kind: "events",
      shown,
      isStreamed: true,
      after,
      ask: (to, signal) => to.events({ principal, streamId, after, signal }),
      decided: (answer) => {
        answered();
        const ref = reference.told(answer);
        if (ref === undefined) return fail("matching", "/events told an answer that no request asked for");
        got(ref.id);
        judge(`answer ${ref.id}`);
        return ref;
      },
      refused: (code) => {
        answered();
        got(...unnamed);
        judge(`refused ${code}`);
      },
      left: () => {
        answered();
        got(...unnamed);
      },
    });
  }

  /** Resolves also when the process dies of it, or with it. */
  stop(principal: string, streamId: string): Promise<void> {
    const { process } = this.#parts.node;
    return new Promise((resolve, reject) => {
      process.onCrash(resolve);
      this.#stop(principal, streamId).then(resolve, reject);
    });
  }

  async #stop(principal: string, streamId: string): Promise<void> {
    const { node, reference, account, world, now, canRest } = this.#parts;
    const { gateway, process, life } = node;
    if (gateway === undefined) return;
    const session = reference.sessions.get(streamId);
    const isOwn = session?.facts.principal === principal;
    // A user may stop a turn without this gateway: by another server, or by a client of Holdfast.
    const isElsewhere = isOwn && (this.isEager || isStubborn(world.seed)) && this.#random.chance(0.5);
    const before = session?.states(now());
    if (isOwn) session.stopping();
    // A retry that wakes the answer at this moment has begun it anew, and gets another one behind the stop.
    if (isOwn && isStubborn(world.seed)) account.want(life, session.last.asked)(session.last.id);
    const how = isElsewhere ? "stop_elsewhere" : isOwn ? "stop" : "stop_foreign";
    world.hit(`gateway.asked.${how}`);
    try {
      if (isElsewhere) await this.#stopElsewhere(principal, streamId);
      else await gateway.stop({ principal, streamId });
      if (!process.alive) return;
      if (!isOwn) fail("E2", "a stream that is not the principal's was stopped");
      else if (before !== undefined) {
        session.stopped(before, now());
        // One that rests hears of it when it is wanted again, and its rows go behind a stop that is answered.
        session.last.mayHaveRows = canRest && (isElsewhere || before.has("parked"));
        if (before.size === 1 && before.has("parked")) session.last.removed = "yes";
        else if (!(before.size === 1 && before.has("finished"))) session.last.removed = "maybe";
      }
    } catch (cause) {
      if (!process.alive) return;
      const { code } = toGatewayError(cause);
      const mayBeGone = isOwn && (before?.has("gone") === true || before?.has("finished") === true);
      if (isOwn && !mayBeGone && node.gateway === gateway) fail("D3", `a stop was refused: ${code ?? ""}`);
      if (!isOwn && code !== "not_found") fail("E2", `a foreign stop was answered with ${code ?? ""}`);
    } finally {
      if (process.alive) reference.changed();
    }
  }

  /** The gateway hears of it from the stream, a moment later. */
  async #stopElsewhere(principal: string, streamId: string): Promise<void> {
    const { node, world } = this.#parts;
    await node.abort(principal, streamId);
    await new Promise<void>((resolve) => world.enqueue(HEARD_MS, resolve));
  }

  #noted(requestId: string, verdict: Verdict): void {
    const { world } = this.#parts;
    world.trace("gateway", "decides", requestId, verdict);
    const kind = verdict.replace(/\b(answer|results|next) [\w-]{8}(\/\d+)?$/, "$1").replaceAll(" ", ".");
    world.hit(`gateway.got.${kind}`);
  }

  #exchange(how: {
    readonly kind: "chat" | "events";
    readonly shown: Shown;
    readonly isStreamed: boolean;
    readonly after?: FramePlace | undefined;
    readonly ask: (gateway: Gateway, signal: AbortSignal) => Promise<Answer>;
    readonly decided: (answer: Answer) => RefAnswer;
    readonly refused: (code: string) => void;
    readonly left: () => void;
  }): Exchange | undefined {
    const { world, node, checks } = this.#parts;
    const { gateway, process } = node;
    if (gateway === undefined) return undefined;
    const askedMs = world.nowMs;
    const arrival = this.#random.pick(ARRIVALS.map((kind) => [kind]))[0];
    const isSlow = this.#random.chance(0.1);
    const isAtOnce = this.#random.chance(0.3);
    const { shown, isStreamed, after, ask } = how;
    const exchange = new Exchange({
      world,
      process,
      gateway,
      ask,
      shown,
      isStreamed,
      after,
      paceMs: () => (isAtOnce ? 0 : this.#random.int(isSlow ? 5_000 : 20)),
      arrival: arrival === undefined ? undefined : { kind: arrival, afterMs: this.#random.int(4_000) },
      decision: {
        decided: (answer) => {
          const ref = how.decided(answer);
          checks.onTime(ref, askedMs);
          const shownBefore = after !== undefined && after.eventId > after.answer;
          return this.#telling(ref, { shownBefore, how: how.kind });
        },
        refused: how.refused,
        left: how.left,
      },
    });
    this.#open.add(exchange);
    // It may have died of this very request.
    if (!process.alive) exchange.killed();
    void exchange.ended.then(() => this.#open.delete(exchange));
    return exchange;
  }

  #telling(
    ref: RefAnswer,
    { shownBefore, how }: { readonly shownBefore: boolean; readonly how: "chat" | "events" },
  ): Telling {
    const { world, reference, checks, now } = this.#parts;
    const session = reference.sessions.get(ref.streamId) ?? fail("matching", "an answer is of no session");
    const telling = ref.tell(now());
    let told = "";
    if (session.last === ref) session.enter(telling, now());
    reference.changed();
    return {
      read: (delta) => {
        this.#watched(() => checks.read(delta, ref, session, { told, shownBefore }));
        if (delta.kind === "text") told += delta.text;
        reference.changed();
        if (delta.kind === "calls" || delta.kind === "ended") this.onEnd();
      },
      over: (isWhole) => {
        world.trace("response", isWhole ? "whole" : "broken", ref.id);
        ref.learn(telling, isWhole ? "whole" : "broken", now());
        session.leave(telling, now());
        reference.changed();
      },
      arrived: (arrival) => {
        world.trace("response", arrival, ref.id);
        ref.learn(telling, arrival, now());
        reference.changed();
      },
      failed: (code) => {
        // Nothing but the end of its turn ends an answer: a kill and a close are not told by its deltas.
        this.#watched(() => {
          // What is lost is begun anew for a request; only the rest of an answer cannot be.
          const isBegunAnew = session.isLost && how === "chat";
          if (!session.mayHaveEnded || isBegunAnew) fail("F1", `answer ${ref.id} broke off with ${code}`);
        });
      },
    };
  }

  /** What a check throws must not be taken for an error of the gateway. */
  #watched(check: () => void): void {
    try {
      check();
    } catch (violation) {
      this.#parts.world.fail(violation);
    }
  }
}
