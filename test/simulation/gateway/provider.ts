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
  /** The provider refuses it. */
  readonly isRefused: boolean;
}

const USAGE = {
  inputTokens: 9,
  outputTokens: 4,
  cacheReadTokens: 3,
  cacheWriteTokens: 2,
  reasoningTokens: 1,
};
const REFUSED = 0.03;
const SLOW = 0.06;
/** Some think for longer than any grace period. */
const SLOW_MS = [5_000, 20_000, 150_000] as const;

export class Provider {
  readonly calls: ProviderCall[] = [];
  /** Checks a call when it is made. */
  onCall: (call: ProviderCall) => void = () => undefined;
  /** Checks a part when it is about to be said. */
  onPart: (call: ProviderCall) => void = () => undefined;
  isCalm = false;
  readonly #world: World;

  constructor(world: World) {
    this.#world = world;
  }

  /** The models as one life of the gateway has them. */
  modelsOf(process: SimProcess): Models {
    const models = MODEL_IDS.map((id): Model => ({
      id,
      contextTokensMax: undefined,
      call: (call) => this.#answer(process, id, call),
    }));
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

  async *#answer(process: SimProcess, model: string, call: ModelCall): AsyncGenerator<ModelPart> {
    if (!process.alive) return;
    const generation = this.calls.length + 1;
    const random = this.#world.random.fork(`generation ${generation}`);
    const isRefused = !this.isCalm && random.chance(REFUSED);
    const made: ProviderCall = { generation, life: process.incarnation, model, call, isRefused };
    this.calls.push(made);
    this.#world.trace("provider", "call", generation, model);
    this.onCall(made);
    await pause(process, random.int(300), call.signal);
    if (isRefused) throw new ModelFailure("invalid_request", `g${generation} is refused`, { status: 400 });
    for (const part of partsOf(generation, call, random)) {
      const isSlow = !this.isCalm && random.chance(SLOW);
      await pause(process, random.int(isSlow ? random.pick(SLOW_MS) : 150), call.signal);
      this.onPart(made);
      yield part;
    }
  }
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
