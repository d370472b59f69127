/**
 * The model calls that are under way in this process, and a gate that closes before a stop.
 *
 * A server that stops lets running calls come to their end for a while. A call that would begin meanwhile waits at the gate until its turn is let
 * go: the next server makes it.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type Model, type ModelCall, type ModelPart, type Models, RESTART_ONLY } from "../agent/index.ts";

/** What the last calls said is on its way to the disk and to its readers: so long at most, and looked at so often. */
const SETTLE_MS_MAX = 2_000;
const LOOK_MS = 25;
/** For the readers, behind the disk. */
const READ_MS = 250;

/** How a model is called. */
export type Calling = (model: Model, call: ModelCall) => AsyncIterable<ModelPart>;

export class ModelCalls {
  readonly #calling: Calling;
  #running = 0;
  #isClosed = false;
  readonly #idle = Promise.withResolvers<void>();

  constructor(calling: Calling = (model, call) => model.call(call)) {
    this.#calling = calling;
  }

  /** The same models, through the gate. */
  counted(models: Models): Models {
    return { list: () => models.list(), resolve: (name) => this.#countedModel(models.resolve(name)) };
  }

  #countedModel(model: Model): Model {
    const { id, contextTokensMax, holdsCalls = false } = model;
    return {
      id,
      contextTokensMax,
      holdsCalls,
      call: (call) => this.#call(model, call),
      waysOf: (modelId, options) => model.waysOf?.(modelId, options) ?? RESTART_ONLY,
      noteContinued: (...noted) => model.noteContinued?.(...noted),
      done: (call) => model.done?.(call),
    };
  }

  async *#call(model: Model, call: ModelCall): AsyncGenerator<ModelPart> {
    if (this.#isClosed) await untilAborted(call.signal);
    this.#running++;
    try {
      yield* this.#calling(model, call);
    } finally {
      this.#running--;
      this.#noteIdle();
    }
  }

  #noteIdle(): void {
    if (this.#isClosed && this.#running === 0) this.#idle.resolve();
  }

  /** No call begins from now on; resolves when those under way have ended, and their answers with them, or after this time. */
  async drain(drainMs: number, isAnswering: () => boolean): Promise<void> {
    this.#isClosed = true;
    if (this.#running === 0 || drainMs === 0) return;
    const late = new AbortController();
    const isEnded = this.#idle.promise.then(() => settled(isAnswering));
    const isLate = sleep(drainMs, undefined, { signal: late.signal }).catch(() => undefined);
    await Promise.race([isEnded, isLate]);
    late.abort();
  }
}

/** An answer whose next call waits at the gate is under way for as long as the server is. */
async function settled(isAnswering: () => boolean): Promise<void> {
  for (let waitedMs = 0; isAnswering() && waitedMs < SETTLE_MS_MAX; waitedMs += LOOK_MS) await sleep(LOOK_MS);
  await sleep(READ_MS);
}

/** Rejects with the signal's reason. */
function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(asError(signal.reason));
    signal.addEventListener("abort", () => reject(asError(signal.reason)), { once: true });
  });
}

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(String(reason));
}
