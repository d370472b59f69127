/**
 * What providers have really written, against what the logs have of it: G1, G2, G3, G4, G6.
 *
 * The checks see both sides, which no server does: every generation from its first word to its end, and every step as it becomes durable.
 */
import { STEP_REQUESTS_MAX } from "../../src/turn/attempts.ts";
import type { Generation } from "./generation.ts";
import { fail } from "./log-checks.ts";

/** A step that comes back so often without a word gives its call up (F1). */
const ATTACHES_MAX = 8;
/** A step begins anew three times and is continued twice. */
const ANSWERS_MAX = 6;

export interface CompletedStep {
  readonly conversationId: string;
  readonly text: string;
  /** The arguments of its tool calls. */
  readonly calls: readonly string[];
  /** The user has stopped the turn: then a part of an answer may be a step. */
  readonly mayBeCut: boolean;
}

export class ProviderChecks {
  /** Several nodes share the store. */
  hasSeveralNodes = false;
  readonly #generations: Generation[] = [];
  /** Asked for by runs that have lost the turn's request. */
  readonly #unlogged = new Set<Generation>();
  /** Conversations whose turn's request is durable. */
  readonly #requested = new Set<string>();
  /** Conversations whose open step has a join that was not proved. */
  readonly #unproved = new Set<string>();

  /** A request has left for a provider. */
  began(generation: Generation, hostEpoch: number): void {
    const before = this.#generations.filter((other) => isSameStep(other, generation));
    for (const other of before) {
      const lives = other.state === "running" || other.state === "whole";
      const isReachable = other.name !== undefined && other.epoch <= hostEpoch && other.gapAt === undefined;
      if (lives && isReachable && other.attaches < ATTACHES_MAX)
        fail("G6", "a second generation is paid while the call of the first is held");
      // A host that lost its stream to another node stops its call: that node could not reach the line of the first.
      if (other.wasAborted && other.epoch <= hostEpoch && !this.hasSeveralNodes)
        fail("G6", "a call was stopped by a host that only let its stream go");
    }
    this.#generations.push(generation);
    if (before.length >= STEP_REQUESTS_MAX) fail("G2", `a step has sent ${before.length + 1} requests`);
    if (before.filter(({ said }) => said > 0).length >= ANSWERS_MAX)
      fail("G2", `a step has paid for more than ${ANSWERS_MAX} answers`);
  }

  /** Another reader takes the place of the one before it. */
  attached(generation: Generation, process: object, epoch: number): void {
    const { reader, attaches, conversationId } = generation;
    const isLogged = this.#requested.has(conversationId);
    // A call that is found before the log has the request: the run that made it lost the request (decision 98). Its epoch is in no log either, so a node that slept in
    // that moment may still read the call; of the two, one can commit.
    if (attaches > 0 && !isLogged) this.#unlogged.add(generation);
    if (isLogged && reader !== undefined && reader.process !== process && reader.epoch >= epoch)
      fail("D1", "two hosts with the same epoch read one call");
  }

  /** The line has heard the cancel of a reader whose place another has taken. */
  cancelled({ epoch }: Generation, byEpoch: number): void {
    if (byEpoch < epoch) fail("D1", "a host that was fenced cancels the call of the one that took its place");
  }

  /**
   * The log has the request of a turn from now on. A run asks its model once before that (decision 31). What a run asked that then lost the request
   * stands in no log, and the next run cannot count it: to that one the turn is new.
   */
  requested(conversationId: string): void {
    this.#requested.add(conversationId);
    const own = this.#generations.filter((one) => one.conversationId === conversationId);
    const last = own.at(-1);
    for (const one of own) if (one !== last || one.reader === undefined) this.#unlogged.add(one);
  }

  /** The log says how many requests the step has sent so far. */
  counted(conversationId: string, step: number, requests: number): void {
    const own = this.#generations.filter((one) => one.conversationId === conversationId);
    const steps = [...new Set(own.map(({ answers }) => answers))].toSorted((a, b) => a - b);
    const ofStep = own.filter((one) => one.answers === steps[step]);
    const logged = ofStep.filter((one) => !this.#unlogged.has(one)).length;
    // A run that has found a call and counts none sends its own first request without waiting for the log.
    const hasFound = ofStep.some((one) => one.attaches > 0 && this.#unlogged.has(one));
    const sent = hasFound && logged === 1 ? 0 : logged;
    if (sent > requests)
      fail("G2", `the log has ${requests} requests of step ${step}, and ${sent} were sent`);
  }

  /** The text of the open step was continued by a model that did not prove it. */
  unproved(conversationId: string): void {
    this.#unproved.add(conversationId);
  }

  /**
   * At a join that was not proved, how much white space stands there is not known when the provider trims it: the words are the generation's, and
   * stand apart.
   */
  completed({ conversationId, text, calls, mayBeCut }: CompletedStep): void {
    const own = this.#generations.filter((one) => one.conversationId === conversationId);
    const heard = this.#unproved.delete(conversationId) ? wordsOf : (said: string): string => said;
    const isWhole = own.some(
      (one) => one.state === "whole" && heard(one.text) === heard(text) && isSame(one.calls, calls),
    );
    if (isWhole) return;
    // A step that was cancelled before its call was made says nothing, and no generation did.
    const isNothing = text === "" && calls.length === 0;
    const isPart = own.some(
      (one) => one.text.startsWith(text) && isSame(one.calls.slice(0, calls.length), calls),
    );
    if (mayBeCut && (isPart || isNothing)) return;
    if (!own.some((one) => one.text === text)) fail("G1", `no generation says ${JSON.stringify(text)}`);
    fail("G3", "the tool calls of a step are not those of the generation that wrote its text");
  }

  /**
   * `endedBy`: the host epoch in which the turn of this conversation ended; undefined while it runs.
   *
   * A stream whose first record never became durable is begun again, and its host epoch is 1 again: a call that the host before let go is not one
   * of the run that ended the turn, though its epoch is the same, unless that run has read it.
   */
  checkEnd(endedBy: (conversationId: string) => number | undefined): void {
    for (const generation of this.#generations) {
      const { conversationId, state, epoch, wasOrphaned, wasLetGo, attaches } = generation;
      const isLeft = state === "running" || state === "expired" || wasLetGo;
      const isOfLostRun = wasLetGo && attaches === 0 && this.#unlogged.has(generation);
      if (isLeft && !isOfLostRun && !wasOrphaned && endedBy(conversationId) === epoch)
        fail("G4", `a turn is over, and its call runs on at the provider: ${conversationId}`);
    }
  }

  /** The newest that says what a text begins with. */
  originOf(conversationId: string, answers: number, beginning: string): Generation | undefined {
    return this.#generations.findLast(
      (one) =>
        one.conversationId === conversationId && one.answers === answers && one.text.startsWith(beginning),
    );
  }
}

function isSameStep(a: Generation, b: Generation): boolean {
  return (
    a.conversationId === b.conversationId && a.answers === b.answers && a.degradedStep === b.degradedStep
  );
}

function wordsOf(text: string): string {
  // Where the join is the end of the text, all that a provider trims may have stood there.
  return text.replaceAll(/\s+/gu, " ").trimEnd();
}

function isSame(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((one, at) => one === b[at]);
}
