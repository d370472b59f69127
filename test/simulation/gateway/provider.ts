/**
 * The provider of a simulated gateway: a scripted model that says something else at each call, and the account of what it was asked.
 *
 * Every call has a number, and everything that it says carries that number (`g12`). So whatever a client is shown can be traced to the call
 * that said it, and to the principal whose prompt it answered. The account lies outside of every process: a model that was called has been
 * called, whatever became of the caller.
 */
import {
  type Model,
  type ModelCall,
  ModelFailure,
  type ModelFailureKind,
  type ModelPart,
  type Models,
} from "../../../src/agent/index.ts";
import type { Random, SimProcess, World } from "../world/index.ts";

export const MODEL_IDS = ["sim/one", "sim/two"] as const;

/** A call as the provider's account has it. */
export interface ProviderCall {
  readonly generation: number;
  /** The life of the gateway that made it. */
  readonly life: number;
  readonly model: string;
  readonly call: ModelCall;
  /** What goes wrong with it. */
  readonly fault: Fault | undefined;
  /** By the world's clock. */
  readonly madeMs: number;
}

/** A refusal with a status, before any part; or the connection breaks behind so many parts, the last of them being the finish. */
export type Fault =
  | { readonly kind: "refused"; readonly status: number; readonly failure: ModelFailureKind }
  | { readonly kind: "broken"; readonly behind: number };

const REFUSALS = [
  { kind: "refused", status: 400, failure: "invalid_request" },
  { kind: "refused", status: 401, failure: "unauthenticated" },
  { kind: "refused", status: 429, failure: "rate_limited" },
  { kind: "refused", status: 503, failure: "unavailable" },
] as const;

const USAGE = {
  inputTokens: 9,
  outputTokens: 4,
  cacheReadTokens: 3,
  cacheWriteTokens: 2,
  reasoningTokens: 1,
};
const REFUSED = 0.03;
const BROKEN = 0.06;
const SLOW = 0.06;
const THOUGHTFUL = 0.2;
/** A model that continues an answer is silent before it speaks, more often than others. */
const REREADING = 0.5;
/** Some think for longer than any grace period. */
const SLOW_MS = [5_000, 20_000, 150_000] as const;

const WORLDS = 22;
const WORLD = 8;

/** In one world in so many models continue what they said. Said by the number of the seed: all other worlds replay as they did. */
export function isContinuing(seed: number): boolean {
  return seed % WORLDS === WORLD;
}

export class Provider {
  readonly calls: ProviderCall[] = [];
  /** Checks a call when it is made. */
  onCall: (call: ProviderCall) => void = () => undefined;
  /** Checks a part when it is about to be said. */
  onPart: (call: ProviderCall) => void = () => undefined;
  /** A call broke behind content, and its client was shown no text of it that cannot be taken back (G1): its step is tried again. */
  onRepeat: (call: ProviderCall) => void = () => undefined;
  /** The last part of a call is about to be said. */
  onFinish: () => void = () => undefined;
  isCalm = false;
  /** It pauses often. */
  isThoughtful = false;
  /** Its models continue an answer that was cut off, when they get its beginning. Such a provider breaks no answer off by itself, and refuses no continuation. */
  isContinuing = false;
  readonly #world: World;
  /** What each call says, by its number. */
  readonly #said = new Map<number, readonly ModelPart[]>();
  readonly #repeated = new Set<ProviderCall>();

  constructor(world: World) {
    this.#world = world;
  }

  isRepeated(call: ProviderCall): boolean {
    return this.#repeated.has(call);
  }

  /** The models as one life of the gateway has them. */
  modelsOf(process: SimProcess): Models {
    const models = MODEL_IDS.map((id) => this.#modelOf(process, id));
    return {
      resolve: (name) => {
        const model = models.find(({ id }) => id === name);
        if (model === undefined) throw new ModelFailure("model_not_found", `there is no ${name}`);
        return model;
      },
      list: () =>
        models.map(({ id }, at) => ({
          id,
          provider: "sim",
          isDefault: at === 0,
          contextTokensMax: undefined,
        })),
    };
  }

  #modelOf(process: SimProcess, id: string): Model {
    const model: Model = {
      id,
      contextTokensMax: undefined,
      call: (call) => this.#answer(process, id, call),
    };
    return this.isContinuing
      ? { ...model, waysOf: () => ({ continues: "exact", prefills: "untried" }) }
      : model;
  }

  async *#answer(process: SimProcess, model: string, call: ModelCall): AsyncGenerator<ModelPart> {
    if (!process.alive) return;
    const generation = this.calls.length + 1;
    const random = this.#world.random.fork(`generation ${generation}`);
    const parts = this.#partsOf(generation, call, random);
    const fault = this.isCalm ? undefined : faultOf(parts, random, this.isContinuing, call);
    const madeMs = this.#world.nowMs;
    const made: ProviderCall = { generation, life: process.incarnation, model, call, fault, madeMs };
    this.calls.push(made);
    this.#world.trace("provider", "call", generation, model);
    this.onCall(made);
    await pause(process, random.int(300), call.signal);
    if (fault?.kind === "refused") {
      this.#world.hit(`gateway.provider.refused_${fault.status}`);
      throw new ModelFailure(fault.failure, `g${generation} is refused`, { status: fault.status });
    }
    for (const [at, part] of parts.entries()) {
      if (at === fault?.behind) this.#break(made, parts);
      const slow = call.prefill === undefined ? SLOW : REREADING;
      const isSlow = !this.isCalm && random.chance(this.isThoughtful ? Math.max(THOUGHTFUL, slow) : slow);
      await pause(process, random.int(isSlow ? random.pick(SLOW_MS) : 150), call.signal);
      this.onPart(made);
      if (part.kind === "finish") this.onFinish();
      yield part;
    }
    if (fault !== undefined) this.#break(made, parts);
  }

  /** A call that gets the beginning of an earlier one's text says the rest of it, word for word. */
  #partsOf(generation: number, call: ModelCall, random: Random): readonly ModelPart[] {
    const begun = /^g(\d+) /.exec(call.prefill ?? "")?.[1];
    const parts = begun === undefined ? undefined : this.#said.get(Number(begun));
    const said = parts === undefined ? partsOf(generation, call, random) : restOf(parts, call.prefill ?? "");
    if (parts !== undefined) this.#world.hit("gateway.provider.continued");
    this.#said.set(generation, said);
    return said;
  }

  #break(made: ProviderCall, parts: readonly ModelPart[]): never {
    const said = parts.slice(0, made.fault?.kind === "broken" ? made.fault.behind : 0);
    this.#world.hit(`gateway.provider.broken_behind_${said.at(-1)?.kind ?? "nothing"}`);
    const isFinal = made.call.options?.shownIsFinal === true && said.some(({ kind }) => kind === "text");
    if (said.length > 0 && !isFinal) {
      this.#repeated.add(made);
      this.onRepeat(made);
    }
    throw new ModelFailure("unavailable", `g${made.generation} broke`, { isPassing: true });
  }
}

function faultOf(
  parts: readonly ModelPart[],
  random: Random,
  isContinuing: boolean,
  { prefill }: ModelCall,
): Fault | undefined {
  if (prefill === undefined && random.chance(REFUSED)) return random.pick(REFUSALS);
  if (isContinuing) return undefined;
  return random.chance(BROKEN) ? { kind: "broken", behind: random.int(parts.length + 1) } : undefined;
}

function partsOf(generation: number, { tools }: ModelCall, random: Random): readonly ModelPart[] {
  const parts: ModelPart[] = [];
  if (random.chance(0.2)) parts.push({ kind: "thinking", text: `g${generation} thinks. ` });
  const pieces = 1 + random.int(4);
  for (let at = 0; at < pieces; at++) parts.push({ kind: "text", text: `g${generation} says ${at}. ` });
  const calls = tools.length > 0 && random.chance(0.6) ? 1 + random.int(3) : 0;
  for (let at = 0; at < calls; at++) {
    // The same ids in every step, as some providers do it.
    const [toolCallId, tool] = [`call_${at}`, random.pick(tools).name];
    parts.push({ kind: "tool_call", toolCallId, tool, args: JSON.stringify({ of: `g${generation}`, at }) });
  }
  return [...parts, { kind: "finish", reason: calls > 0 ? "tool_calls" : "stop", usage: USAGE }];
}

function restOf(parts: readonly ModelPart[], prefill: string): readonly ModelPart[] {
  const text = parts.map((part) => (part.kind === "text" ? part.text : "")).join("");
  const others = parts.filter(({ kind }) => kind !== "text" && kind !== "thinking");
  return [{ kind: "text", text: text.slice(prefill.length) }, ...others];
}

/** As a provider's connection: an abort ends the wait. */
function pause(process: SimProcess, delayMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      cancel();
      reject(new DOMException("the call was given up", "AbortError"));
    };
    const cancel = process.env.after(delayMs, () => {
      signal.removeEventListener("abort", stop);
      resolve();
    });
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
  });
}
