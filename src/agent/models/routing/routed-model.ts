/**
 * A `Model` over several targets: the model that was asked for, and its fallbacks.
 *
 * The driver of `route.ts`: it asks a target, notes what became of it, and asks what is next. While nothing has been given out, a failure may
 * be mended by another request. After the first part a call never starts over by itself: what breaks then is thrown, and the
 * turn decides.
 */
import { setTimeout as delay } from "node:timers/promises";
import { type Continued, type Model, type ModelCall, ModelFailure, type ModelPart } from "../../model.ts";
import { allNames, type HeldRequests, heldRequests, notHeld } from "../line/line-fetch.ts";
import type { LineClient } from "../line/line-client.ts";
import type { StepOptions } from "../../../protocol/messages.ts";
import { RESTART_ONLY, type Ways } from "../../../turn/found.ts";
import type { Patience } from "../patience.ts";
import type { Continuations } from "../prefill.ts";
import { type Health, noteAnswer, noteFailure, type Target } from "./health.ts";
import { type Ask, firstAsk, newRoute, nextAsk, type Route } from "./route.ts";

/** A target that can be asked. */
export interface AskedTarget extends Target {
  readonly contextTokensMax: number | undefined;
  readonly patience: Patience;
  /** With the API key at this place. Ends with exactly one `finish`, or throws a `ModelFailure`. */
  ask(call: ModelCall, key: number, held?: HeldRequests): AsyncIterable<ModelPart>;
}

interface RoutedModelOptions {
  readonly target: AskedTarget;
  /** Asked in turn when it fails; `named`: those that the request names in place of the configured ones. */
  readonly fallbacks: (named: readonly string[]) => readonly AskedTarget[];
  readonly health: Health;
  /** Holds the requests of calls that have names; undefined: they end with this process. */
  readonly line?: LineClient | undefined;
  /** What may be done about an answer that broke off. */
  readonly continuations?: Continuations;
}

export class RoutedModel implements Model {
  readonly id: string;
  readonly contextTokensMax: number | undefined;
  readonly holdsCalls: boolean;
  readonly #options: RoutedModelOptions;
  /** The requests of a call, by what names them. */
  readonly #held = new WeakMap<NonNullable<ModelCall["nameOf"]>, HeldRequests>();

  constructor(options: RoutedModelOptions) {
    this.id = options.target.id;
    this.contextTokensMax = options.target.contextTokensMax;
    this.holdsCalls = options.line !== undefined;
    this.#options = options;
  }

  waysOf(modelId: string, options: StepOptions | undefined): Ways {
    return this.#options.continuations?.waysOf(modelId, options) ?? RESTART_ONLY;
  }

  noteContinued(modelId: string, how: Continued, stream?: ModelCall["stream"]): void {
    this.#options.continuations?.note(modelId, how, stream);
  }

  async *call(call: ModelCall): AsyncGenerator<ModelPart> {
    const { health, line } = this.#options;
    const { signal } = call;
    const held = await heldRequests(line, call);
    if (held !== undefined && call.nameOf !== undefined) this.#held.set(call.nameOf, held);
    const targets = new Map(this.#targetsOf(call, held?.target).map((target) => [target.id, target]));
    const isHeld = held?.target !== undefined && targets.has(held.target);
    if (call.mode === "attach" && !isHeld) throw notHeld();
    if (!isHeld) held?.forgetAnswer();
    const route = newRoute(health, [...targets.values()], performance.now());
    let ask = firstAsk(health, route, performance.now());
    let isGivenOut = false;
    // Of a call that is asked to attach the turn knows itself.
    let isSaved = isHeld && call.mode !== "attach";
    while (ask !== undefined) {
      const target = targets.get(ask.target.id);
      if (target === undefined) return;
      if (ask.pauseMs > 0) await pause(ask.pauseMs, signal);
      // Ends of items in which nothing was said: with a try that breaks behind them they go, and the next one brings its own.
      const silent: ModelPart[] = [];
      held?.beginAnswer();
      try {
        for await (const part of target.ask(call, ask.key, held)) {
          if (!isGivenOut && isSilent(part)) {
            silent.push(part);
            continue;
          }
          if (!isGivenOut && target.id !== this.id) yield { kind: "fallback", model: target.id };
          isGivenOut = true;
          for (const end of silent.splice(0)) yield end;
          yield part;
        }
        noteAnswer(health, target, ask.key);
        if (isSaved) this.noteContinued(target.id, "replay", call.stream);
        return;
      } catch (error) {
        if (!(error instanceof ModelFailure)) throw error;
        noteFailure(health, target, ask.key, error, performance.now());
        held?.forgetAnswer();
        isSaved = false;
        if (isGivenOut || call.mode === "attach") throw error;
        const next = this.#next(route, ask.key, error, call);
        if (next instanceof ModelFailure) throw next;
        ask = next;
      }
    }
  }

  /** Ends what is held for a call whose answer is on disk. */
  done({ nameOf, hostEpoch }: Pick<ModelCall, "nameOf" | "hostEpoch">): void {
    if (nameOf === undefined || hostEpoch === undefined) return;
    const held = this.#held.get(nameOf);
    // A step that was stopped before it made its call may have one from a run before.
    if (held === undefined) void this.#options.line?.say("done", allNames(nameOf), hostEpoch);
    else held.done();
  }

  /** A held answer is read by the target that gave it, and by no other. */
  #targetsOf({ onlyModel, options }: ModelCall, held: string | undefined): readonly AskedTarget[] {
    const { target, fallbacks } = this.#options;
    const others = fallbacks(options?.fallbackModels ?? []).filter(({ id }) => id !== target.id);
    const all = [target, ...others];
    const only = all.some(({ id }) => id === held) ? held : onlyModel;
    const fixed = only === undefined ? all : all.filter(({ id }) => id === only);
    return fixed.length > 0 ? fixed : [target];
  }

  #next(route: Route, key: number, failure: ModelFailure, { requests }: ModelCall): Ask | ModelFailure {
    const { health, target } = this.#options;
    return nextAsk(health, route, key, failure, {
      nowMs: performance.now(),
      random: Math.random(),
      backoff: target.patience,
      mayWait: (pauseMs) => requests?.mayWait(pauseMs) ?? true,
    });
  }
}

function isSilent({ kind }: ModelPart): boolean {
  return kind === "text_end" || kind === "thinking_end";
}

async function pause(pauseMs: number, signal: AbortSignal): Promise<void> {
  try {
    await delay(pauseMs, undefined, { signal });
  } catch {
    signal.throwIfAborted();
  }
}
