/**
 * An OpenAI client that behaves as real ones do, and worse: it asks, reads, hangs up, tries again, asks twice at once, edits what was said,
 * leaves results out, claims what is another principal's, and comes back hours later.
 *
 * What it is shown it keeps as its history. When it is calm, it only finishes what it has begun.
 */
import { type Door, DOORS } from "../../../src/gateway/openai/index.ts";
import { fail } from "../log-checks.ts";
import type { Random } from "../world/index.ts";
import type { ClientParts } from "./client-parts.ts";
import { type Exchange, newShown, PASSING, type ResponseEnd, type Shown, soon, Tries } from "./exchange.ts";
import { type SimContext, type SimMessage, written } from "./messages.ts";
import { MODEL_IDS } from "./provider.ts";
import type { Asked } from "./reference-answers.ts";
import { isStubborn, Stubborn } from "./stubborn.ts";
import { CONTEXTS, hashOf, newestIn, resultsOf, type Sent, stolenResults, type Talk } from "./talk.ts";

const LATER_MS_MAX = 3_000;
/** So many conversations are not forgotten for the next one. */
const EARLIER_MAX = 3;
/** Longer than any grace period. */
const MUCH_LATER_MS = 100_000;

export class OpenAiClient {
  readonly principal: string;
  readonly #name: string;
  isCalm = false;
  isIdle = true;
  talk: Talk | undefined;
  readonly #parts: ClientParts;
  readonly #random: Random;
  readonly #doors: Random;
  /** It names its session in each request. */
  readonly #isNamed: boolean;
  readonly #earlier: Talk[] = [];
  readonly #stubborn: Stubborn | undefined;
  #keys = 0;

  constructor(principal: string, name: string, parts: ClientParts) {
    this.principal = principal;
    this.#name = name;
    this.#parts = parts;
    this.#random = parts.world.random.fork(`client ${name}`);
    this.#doors = parts.world.random.fork(`doors of ${name}`);
    this.#isNamed = parts.world.random.fork(`session of ${name}`).chance(0.2);
    if (isStubborn(parts.world.seed)) this.#stubborn = new Stubborn(principal, parts, this.#doors);
  }

  async live(): Promise<void> {
    while (!this.isCalm) {
      await this.#wait(this.#random.int(this.#parts.paceMs));
      if (this.isCalm) return;
      this.isIdle = false;
      await this.#act();
      this.isIdle = true;
    }
  }

  /** After a long time, to the conversation that it had last. */
  async comeBack(): Promise<void> {
    const { talk } = this;
    if (talk === undefined) return;
    this.isIdle = false;
    this.#asked("late");
    const marker = `m${this.#parts.nextMarker()}`;
    const words = talk.pending.length > 0 ? resultsOf(talk.pending, marker) : [this.#words(marker)];
    await this.#send(this.#sent(talk, [...talk.messages, ...words]));
    this.isIdle = true;
  }

  /** A plain question, which must be answered. */
  async lastWord(): Promise<void> {
    this.isIdle = false;
    const sent = this.#sent({ door: "chat", system: "", tools: [], model: MODEL_IDS[0] }, [this.#words()]);
    const talk = await this.#send({ ...sent, key: undefined });
    if (talk === undefined) fail("F1", "a question is not answered, though nothing goes wrong any more");
    this.isIdle = true;
  }

  async #act(): Promise<unknown> {
    const random = this.#random;
    if (this.#earlier.length > 0 && random.chance(0.15)) {
      this.#asked("earlier_talk");
      this.talk = random.pick(this.#earlier);
    }
    const { talk } = this;
    if (talk === undefined || random.chance(0.15)) return this.#begin();
    if (random.chance(0.08)) return this.#steal();
    if (random.chance(0.08)) return this.#lookAgain(talk);
    const isStopped = random.chance(0.06);
    if (isStopped) await this.#parts.door.stop(this.principal, talk.streamId);
    if (isStopped && this.#stubborn !== undefined) return this.#send(this.#underKeyOf(talk));
    if (isStopped && !this.#parts.door.isEager) return undefined;
    if (random.chance(isStopped ? 0.4 : 0.08)) return this.#regenerate(talk);
    return talk.pending.length > 0 ? this.#results(talk) : this.#goOn(talk);
  }

  async #begin(): Promise<unknown> {
    const random = this.#random;
    if (random.chance(0.1)) await this.#huge({ ...CONTEXTS[0], model: MODEL_IDS[0] }, [this.#words()]);
    this.#asked("new");
    const model = random.chance(0.03) ? "sim/none" : random.pick(MODEL_IDS);
    const [context, { hasDoors }] = [random.pick(CONTEXTS), this.#parts];
    const door = hasDoors ? this.#doors.pick(DOORS) : context.door;
    if (door !== "chat") this.#asked(`by_${door}`);
    return this.#maybeTwice(this.#sent({ ...context, door, model }, [this.#words()]));
  }

  #goOn(talk: Talk): Promise<unknown> {
    const random = this.#random;
    const messages = [...talk.messages, this.#words()];
    if (random.chance(0.1)) return this.#edited(talk, messages);
    if (random.chance(0.1)) return this.#elsewhere(talk, messages);
    this.#asked("next_message");
    return this.#maybeTwice(this.#sent(talk, messages));
  }

  async #results(talk: Talk): Promise<unknown> {
    const random = this.#random;
    const [{ pending, messages }, marker] = [talk, `m${this.#parts.nextMarker()}`];
    const results = resultsOf(pending, marker);
    const [first] = results;
    const all = [...messages, ...results];
    if (random.chance(0.15)) await this.#huge(talk, all);
    const kind = random.int(14);
    switch (kind === 9 && this.#parts.door.isEager ? 3 : kind) {
      case 0:
        this.#asked("results_missing");
        return this.#send(this.#sent(talk, [...messages, ...results.slice(1), this.#words(marker)]));
      case 1:
        this.#asked("results_foreign");
        return this.#send(
          this.#sent(talk, [...all, { role: "tool", id: "Xx1Yy2Zz3", text: `${marker} foreign` }]),
        );
      case 2:
        this.#asked("results_doubled");
        return this.#send(this.#sent(talk, first === undefined ? all : [...all, first]));
      case 3:
        this.#asked("results_with_words");
        return this.#send(this.#sent(talk, [...all, this.#words(marker)]));
      case 4:
        return this.#edited(talk, all);
      case 5:
        return this.#elsewhere(talk, all);
      case 6: {
        // The same results, written in two ways: only one of them can continue the turn.
        this.#asked("results_two_ways");
        const one = this.#sent(talk, all);
        const other = { ...this.#sent(talk, [...messages, ...results.toReversed()]), key: undefined };
        return Promise.all([this.#send(one), this.#send(other)]);
      }
      case 7:
      case 8:
        this.#asked("results_reordered");
        return this.#maybeTwice(this.#sent(talk, [...messages, ...results.toReversed()]));
      default:
        this.#asked("results");
        return this.#maybeTwice(this.#sent(talk, all));
    }
  }

  /** With more options than the gateway takes. */
  #huge(context: SimContext & { readonly model: string }, messages: readonly SimMessage[]): Promise<unknown> {
    this.#asked("huge");
    return this.#send(this.#sent(context, messages, { isHuge: true }));
  }

  /** One word of its past is another one now. */
  #edited(talk: Talk, messages: readonly SimMessage[]): Promise<unknown> {
    this.#asked("edited");
    const at = messages.findIndex(({ role }) => role === "user");
    const marker = `m${this.#parts.nextMarker()}`;
    const edited = messages.map((message, place): SimMessage =>
      place === at && message.role === "user" ? { ...message, text: `${marker} in other words` } : message,
    );
    return this.#send(this.#sent(talk, edited));
  }

  /** To another model, or under another system prompt. */
  #elsewhere(talk: Talk, messages: readonly SimMessage[]): Promise<unknown> {
    const other = MODEL_IDS.find((id) => id !== talk.model) ?? talk.model;
    const isModel = this.#random.chance(0.5);
    this.#asked(isModel ? "other_model" : "other_context");
    const changed = isModel ? { model: other } : { system: `${talk.system} And kind.` };
    return this.#send(this.#sent({ ...talk, ...changed }, messages));
  }

  /** The same request again, though it was answered: another sample, or a retry by the client's own count. */
  async #regenerate({ last }: Talk): Promise<unknown> {
    if (this.#random.chance(0.4)) {
      this.#asked("again_twice");
      const sample = { ...last, key: undefined };
      await Promise.all([this.#send(sample), this.#send(sample)]);
      return this.#send(sample, true);
    }
    this.#asked("again");
    return this.#send(last, this.#random.chance(0.4));
  }

  /** Asks once for what another principal has just asked for, to the byte. */
  async copy(sent: Sent): Promise<void> {
    this.#asked("copied_body");
    await this.#chat({ ...sent, key: undefined }, this.#random.chance(0.3), newShown())?.ended;
  }

  /** Another principal's history, stream and tool calls. */
  async #steal(): Promise<unknown> {
    const others = this.#parts.talks().filter(([principal]) => principal !== this.principal);
    if (others.length === 0) return undefined;
    const [, stolen] = this.#random.pick(others);
    const { door } = this.#parts;
    switch (this.#random.int(4)) {
      case 0:
        return door.stop(this.principal, stolen.streamId);
      case 2:
        this.#asked("stolen_body");
        return this.#send({ ...stolen.last, key: undefined }, this.#random.chance(0.5));
      case 1:
        this.#asked("events_foreign");
        return door.events(this.principal, { ...newShown(), streamId: stolen.streamId }, undefined)?.ended;
      default: {
        this.#asked("stolen_history");
        const marker = `m${this.#parts.nextMarker()}`;
        const results = stolenResults(stolen, marker);
        const words = results.length > 0 ? results : [this.#words(marker)];
        return this.#send(this.#sent(stolen, [...stolen.messages, ...words]));
      }
    }
  }

  /** `/events` of an answer that it has already, or of an earlier one of the same stream. */
  #lookAgain(talk: Talk): Promise<unknown> {
    // Other doors have other ways back to an answer.
    if (talk.door !== "chat") return this.#regenerate(talk);
    this.#asked("events_again");
    const after = this.#random.chance(0.5) ? undefined : { answer: 0, eventId: 0, frames: 0 };
    const shown = { ...newShown(), streamId: talk.streamId };
    return this.#parts.door.events(this.principal, shown, after)?.ended ?? Promise.resolve();
  }

  /** Something else under the key of its last request. */
  #underKeyOf(talk: Talk): Sent {
    return { ...this.#sent(talk, [...talk.messages, this.#words()]), key: talk.last.key };
  }

  #maybeTwice(sent: Sent): Promise<unknown> {
    const random = this.#random;
    if (random.chance(0.85)) return this.#send(sent);
    this.#asked("twice_at_once");
    return Promise.all([this.#send(sent), this.#wait(random.int(200)).then(() => this.#send(sent))]);
  }

  #words(marker = `m${this.#parts.nextMarker()}`): SimMessage {
    return { role: "user", text: `${marker} ${this.principal} asks` };
  }

  #sent(
    context: SimContext & { readonly model: string },
    messages: readonly SimMessage[],
    { isHuge = false } = {},
  ): Sent {
    const random = this.#random;
    const marker = newestIn(messages);
    const { model, system, tools } = context;
    const door = this.#doorOf(context, messages);
    const body = { model, door, system, tools, messages, marker, stream: random.chance(0.7), isHuge };
    const json = written(body, random);
    const isKeyed = random.chance(0.25);
    const isUsed = isKeyed && this.#keys > 0 && random.chance(0.1);
    if (isUsed) this.#asked("key_of_another");
    // Some keys are everyone's: each principal has its own of that name.
    const name = isKeyed && random.chance(0.2) ? "common" : this.#name;
    const key = isKeyed ? `${name} key ${isUsed ? random.int(this.#keys) : this.#keys++}` : undefined;
    return {
      body,
      json,
      hash: this.#isNamed ? `${hashOf(json, door)} of ${this.#name}` : hashOf(json, door),
      key,
    };
  }

  /** Some conversations are carried on by another door: to the gateway they are others. */
  #doorOf({ door }: SimContext, messages: readonly SimMessage[]): Door {
    const isBegun = messages.some(({ role }) => role === "assistant");
    if (!this.#parts.hasDoors || !isBegun || this.#doors.chance(0.85)) return door;
    this.#asked("other_door");
    return this.#doors.pick(DOORS.filter((other) => other !== door));
  }

  /** Until it has the answer, is refused, or gives up. Returns the conversation as it is then. */
  async #send(sent: Sent, saysRetry = false): Promise<Talk | undefined> {
    const random = this.#random;
    const { door } = this.#parts;
    let shown = newShown();
    let exchange = this.#chat(sent, saysRetry, shown);
    const tries = new Tries(this.#parts.world);
    while (tries.areLeft) {
      const end: ResponseEnd =
        exchange === undefined ? { kind: "broken" } : await this.#read(exchange, shown);
      if (end.kind === "whole") return this.#keep(sent, shown);
      if (end.kind === "error" && !PASSING.has(end.code)) return undefined;
      tries.count(end);
      if (!this.isCalm && random.chance(this.#parts.isHasty ? 0.4 : 0.12)) {
        this.#asked("given_up");
        return undefined;
      }
      if (!this.isCalm && random.chance(0.15)) await this.#meanwhile(sent);
      const isLong = !this.isCalm && exchange !== undefined && random.chance(0.1);
      await this.#wait(
        isLong ? MUCH_LATER_MS : random.chance(0.3) ? random.int(20) : 100 + random.int(LATER_MS_MAX),
      );
      const canResume =
        sent.body.door === "chat" &&
        sent.body.stream &&
        shown.streamId !== "" &&
        shown.finish === undefined &&
        end.kind === "broken";
      if (canResume && random.chance(0.4)) {
        this.#asked("events");
        exchange = door.events(this.principal, shown, shown.place);
        continue;
      }
      if (exchange !== undefined) this.#asked(sent.key === undefined ? "retry" : "retry_keyed");
      const counts = end.kind === "broken" && random.chance(0.4);
      const [before, stubborn] = [shown, this.isCalm ? undefined : this.#stubborn];
      if (stubborn !== undefined) await stubborn.beforeRetry(before);
      shown = newShown();
      exchange = this.#chat(sent, counts, shown);
      if (stubborn !== undefined && exchange !== undefined) await stubborn.withRetry(before, exchange);
    }
    return fail("F1", `${this.principal} has asked again and again and has no answer`);
  }

  /** Between a request that broke off and its retry: another client asks for the same, or this one for the answer before it. */
  async #meanwhile(sent: Sent): Promise<void> {
    const others = this.#parts.others(this.principal);
    if (others.length > 0 && this.#random.chance(0.5)) return this.#random.pick(others).copy(sent);
    const last = this.talk?.last;
    if (last === undefined || last === sent) return;
    this.#asked("retry_earlier");
    await this.#chat(last, true, newShown())?.ended;
  }

  #chat(sent: Sent, counts: boolean, shown: Shown): Exchange | undefined {
    const { body, hash, key, json } = sent;
    if (this.#isNamed) this.#asked("in_session");
    const retrySign = counts ? "counted" : this.#isNamed ? "repeated" : "none";
    const asked: Asked = { principal: this.principal, body, hash, key, retrySign };
    return this.#parts.door.chat(asked, json, shown);
  }

  /** To its end, or to where this client loses its patience. */
  #read(exchange: Exchange, shown: Shown): Promise<ResponseEnd> {
    const random = this.#random;
    const { isHasty } = this.#parts;
    if (this.isCalm) return exchange.ended;
    if (random.chance(isHasty ? 0.4 : 0.25)) {
      this.#asked("cut");
      soon(this.#parts.world, random, exchange, () => exchange.cut());
    } else if (random.chance(isHasty ? 0.1 : 0.03)) {
      soon(this.#parts.world, random, exchange, () => this.#stop(shown));
    }
    return exchange.ended;
  }

  /** Whatever its stream says: the answer that it reads, or the one behind that. */
  #stop({ streamId }: Shown): void {
    if (streamId === "") return;
    this.#asked("stop_under_way");
    this.#parts.door.stop(this.principal, streamId).catch((cause: unknown) => this.#parts.world.fail(cause));
  }

  #keep(sent: Sent, shown: Shown): Talk {
    const { checks, answerOf } = this.#parts;
    const ref = answerOf(shown) ?? fail("matching", "an answer is of no stream");
    checks.whole(shown, ref);
    const [{ text, calls: pending, streamId }, { model, door, system, tools }] = [shown, sent.body];
    const messages = [...sent.body.messages, { role: "assistant", text, calls: pending } as const];
    this.talk = { model, door, system, tools, messages, pending, streamId, last: sent };
    this.#earlier.push(this.talk);
    if (this.#earlier.length > EARLIER_MAX) this.#earlier.shift();
    return this.talk;
  }

  #asked(kind: string): void {
    this.#parts.world.hit(`gateway.asked.${kind}`);
    this.#parts.world.trace(this.principal, "does", kind);
  }

  #wait(delayMs: number): Promise<void> {
    return new Promise((resolve) => this.#parts.world.enqueue(delayMs, resolve));
  }
}
