/**
 * Checks of what clients are shown: an answer is the same whenever it is told, a tool call id means one call, and no word of one principal
 * reaches another.
 */
import type { AnswerDelta } from "../../../src/gateway/openai/index.ts";
import { type Failure, FailureKind } from "../../../src/protocol/messages.ts";
import { fail } from "../log-checks.ts";
import type { World } from "../world/index.ts";
import type { Shown } from "./exchange.ts";
import type { BegunStream } from "./gateway-node.ts";
import { markerOf, type SimCall } from "./messages.ts";
import type { Provider } from "./provider.ts";
import type { LostConversations } from "./reference-conversations.ts";
import type { Clock, RefAnswer, Whole } from "./reference-answers.ts";
import type { RefSession } from "./reference-sessions.ts";

export interface AnswerChecksParts {
  readonly world: World;
  readonly provider: Provider;
  readonly streams: ReadonlyMap<string, BegunStream>;
  readonly now: () => Clock;
  readonly life: () => number;
  readonly lost: LostConversations;
}

/** A step is restarted so often, then its turn fails (F1). */
const RESTARTS_MAX = 3;
const HEAD_HELD_MS = 10_000;
/** So soon a retry is answered when its model is asked again; less than the time after which it is answered in any case. */
const ANSWERED_MS_MAX = 4_000;
/** The same when the model is asked to continue its text: until it speaks it is not known whether the text stands, and a client waits for that, but not for long. */
const CONTINUED_MS_MAX = 6_000;

export class AnswerChecks {
  readonly #parts: AnswerChecksParts;
  /** By the id that clients know: which call of which answer it is. */
  readonly #calls = new Map<string, string>();

  constructor(parts: AnswerChecksParts) {
    this.#parts = parts;
  }

  /** A response is about to show this. `told`: the text that it has shown; `shownBefore`: its client has some of the answer from another one. */
  read(
    delta: AnswerDelta,
    ref: RefAnswer,
    session: RefSession,
    { told, shownBefore }: { readonly told: string; readonly shownBefore: boolean },
  ): void {
    if (delta.kind === "text" || delta.kind === "reasoning") this.#own(delta.text, ref);
    if (delta.kind === "restarted") this.#parts.world.hit("gateway.sometimes.step_restarted");
    if (delta.kind === "diverged") {
      this.#parts.world.hit("gateway.sometimes.diverged");
      // Text of an answer that is given as a whole may be taken back.
      const isTakenBack = !ref.asked.body.stream && told !== "";
      if (!shownBefore && !isTakenBack)
        fail("G1", "an answer parts from what it said before, and nothing was shown before");
    }
    if (delta.kind !== "calls" && delta.kind !== "ended") return;
    const calls = delta.kind === "calls" ? delta.calls.map(callOf) : [];
    for (const call of calls) this.#named(call, ref);
    this.#own(delta.said.text, ref);
    const finish = delta.kind === "calls" ? "tool_calls" : delta.finish;
    if (ref.asked.body.stream && !delta.said.text.startsWith(told.trimEnd()) && !shownBefore)
      fail("G1", `answer ${ref.id} is "${delta.said.text}", and "${told}" was shown of it`);
    if (finish === undefined) return this.#unfinished(delta, ref, session);
    this.#equal(ref, { text: delta.said.text.trim(), calls, finish });
    if (session.last === ref)
      session.ended(
        delta.kind === "calls" ? "calls" : "completed",
        calls,
        delta.said.text,
        this.#parts.now(),
      );
  }

  /** A retry, or a client that reads on, has its response: it has not waited while its model spoke. */
  onTime(ref: RefAnswer, askedMs: number): void {
    const { provider, streams, world } = this.#parts;
    const own = streams.get(ref.streamId)?.conversationId;
    const asked = provider.calls.find(
      ({ call, madeMs }) =>
        madeMs >= askedMs && call.conversationId === own && markerOf(call.messages) === ref.asked.body.marker,
    );
    const waitedMs = world.nowMs - (asked?.madeMs ?? world.nowMs);
    if (waitedMs > (asked?.call.prefill === undefined ? ANSWERED_MS_MAX : CONTINUED_MS_MAX))
      fail("F4", `answer ${ref.id} is under way, and its client waited ${waitedMs} ms for a response`);
  }

  /** A client has a whole answer: what it was shown, over all connections, is that answer. */
  whole(shown: Shown, ref: RefAnswer): void {
    const { finish = "" } = shown;
    this.#equal(ref, { text: shown.text.trim(), calls: shown.calls, finish });
  }

  #equal(ref: RefAnswer, whole: Whole): void {
    ref.whole ??= whole;
    const [first, now] = [JSON.stringify(ref.whole), JSON.stringify(whole)];
    if (first !== now) fail("B4", `answer ${ref.id} was ${first} and is now ${now}`);
  }

  #unfinished(
    delta: Extract<AnswerDelta, { kind: "calls" | "ended" }>,
    ref: RefAnswer,
    session: RefSession,
  ): void {
    if (delta.kind !== "ended") return;
    const { world } = this.#parts;
    session.states(this.#parts.now());
    world.hit(`gateway.sometimes.${delta.reason}`);
    if (delta.reason === "aborted" && !session.mayHaveEnded)
      fail("F1", `answer ${ref.id} was stopped, and no client wanted that`);
    if (delta.reason === "failed") this.#failed(delta.failure, ref);
    if (delta.reason === "completed") fail("F1", `answer ${ref.id} is complete and has no finish`);
    ref.hasFailed = true;
    if (session.last !== ref) return;
    ref.removed = "yes";
    session.ended("failed", [], "", this.#parts.now());
  }

  /** Only what the provider did fails an answer, and its client is told with the provider's own status; or the step was cut off too often, or its conversation is lost. */
  #failed(failure: Failure | undefined, ref: RefAnswer): void {
    const { provider, streams, life, world, lost, now } = this.#parts;
    const { message = "", providerStatus = 0 } = failure ?? {};
    const own = streams.get(ref.streamId)?.conversationId;
    const broken = provider.calls.filter(
      ({ call, fault }) => fault?.kind === "broken" && call.conversationId === own,
    );
    if (own !== undefined && failure?.kind === FailureKind.BLOB_MISSING && lost.isLost(own)) {
      world.hit("gateway.sometimes.failed_conversation_lost");
      return lost.failed(own, now());
    }
    const isCutOffOften = life() - ref.life + broken.length >= RESTARTS_MAX;
    const said = /^g(\d+) /.exec(message)?.[1];
    const call = said === undefined ? undefined : provider.calls[Number(said) - 1];
    if (call?.fault === undefined || call.call.conversationId !== own) {
      if (!isCutOffOften) fail("F1", `answer ${ref.id} failed, and the provider did nothing: ${message}`);
      return;
    }
    world.hit(`gateway.sometimes.failed_${call.fault.kind}`);
    const { fault } = call;
    if (fault.kind === "refused" && fault.status !== providerStatus)
      fail("G1", `the provider's status ${fault.status} was told as ${providerStatus}`);
    // A wait that would end after the head of the response has left is not begun.
    const isLong = world.nowMs - call.madeMs >= HEAD_HELD_MS / 2;
    if (fault.kind === "broken" && provider.isRepeated(call) && !isCutOffOften && !isLong)
      fail("G2", `answer ${ref.id} failed, and what g${call.generation} said could have been taken back`);
  }

  /** No tool call is asked for twice, and none under an id of another one. */
  #named({ id, name, args }: SimCall, ref: RefAnswer): void {
    const meant = `${ref.streamId} ${ref.fromEvent} ${name} ${args}`;
    const before = this.#calls.get(id) ?? meant;
    this.#calls.set(id, meant);
    if (before !== meant) fail("A8", `the tool call id ${id} means ${before} and ${meant}`);
    this.#own(args, ref);
  }

  /** The words of a generation are for the principal whose prompt it answered. */
  #own(text: string, { asked: { principal } }: RefAnswer): void {
    const { provider, streams } = this.#parts;
    for (const [, number] of text.matchAll(/\bg(\d+)\b/g)) {
      const conversationId = provider.calls[Number(number) - 1]?.call.conversationId;
      const owner = [...streams.values()].find(
        (stream) => stream.conversationId === conversationId,
      )?.principal;
      if (owner !== principal) fail("E2", `${principal} was shown what was said to ${owner ?? "nobody"}`);
    }
  }
}

function callOf({ callId, tool, args }: { callId: string; tool: string; args: string }): SimCall {
  return { id: callId, name: tool, args };
}
