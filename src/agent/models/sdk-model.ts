/**
 * A `Model` over any model of the AI SDK's provider interface.
 *
 * One call is one request, or up to three: while nothing has been given out, a failure that passes (a rate limit, an
 * overloaded server) is tried again. After the first part nobody may start over in secret, so what breaks then is thrown.
 * A provider that says nothing for too long has failed as well.
 *
 * Invariant: the request ends when the caller stops listening, whatever the reason.
 */
import type { LanguageModelV4, LanguageModelV4CallOptions } from "@ai-sdk/provider";
import { setTimeout as delay } from "node:timers/promises";
import type { Model, ModelCall, ModelPart } from "../model.ts";
import { callOptionsOf } from "./call-options.ts";
import type { Dialect } from "./dialect.ts";
import { judge, type Judged, Silence, StreamBroken } from "./failures.ts";
import { DEFAULT_PATIENCE, type Patience } from "./patience.ts";
import { promptOf } from "./prompt.ts";
import { cleanedWords } from "./provider-words.ts";
import { PartReader } from "./stream-parts.ts";

/** Three requests at the most: more would hide a problem and cost money. */
const TRIES_MAX = 3;

/** How long a server may take to end an answer that is complete. */
const ENDING_MS = 2_000;

export interface SdkModelOptions {
  /** `provider/model`. */
  readonly id: string;
  readonly dialect: Dialect;
  /** Called at the first call, so that an SDK that nobody uses is never loaded. May throw a `ModelFailure`. */
  readonly load: () => LanguageModelV4 | Promise<LanguageModelV4>;
  readonly contextTokensMax?: number | undefined;
  readonly outputTokensMax?: number | undefined;
  /** Never shown in a message. */
  readonly secrets?: readonly string[];
  /** How the user puts a wrong API key right. */
  readonly keyRemedy?: string;
  readonly patience?: Partial<Patience>;
}

export function sdkModel(options: SdkModelOptions): Model {
  return new SdkModel(options);
}

class SdkModel implements Model {
  readonly id: string;
  readonly contextTokensMax: number | undefined;
  readonly #options: SdkModelOptions;
  readonly #patience: Patience;
  #loaded: LanguageModelV4 | undefined;

  constructor(options: SdkModelOptions) {
    this.id = options.id;
    this.contextTokensMax = options.contextTokensMax;
    this.#options = options;
    this.#patience = { ...DEFAULT_PATIENCE, ...options.patience };
  }

  async *call(call: ModelCall): AsyncGenerator<ModelPart> {
    const { dialect, load, outputTokensMax } = this.#options;
    const request = {
      ...callOptionsOf(call, dialect, outputTokensMax),
      prompt: await promptOf(call, dialect),
    };
    const model = (this.#loaded ??= await load());
    let isGivenOut = false;
    for (let tries = 1; ; tries++) {
      try {
        for await (const part of this.#attempt(model, request, call.signal)) {
          isGivenOut = true;
          yield part;
        }
        return;
      } catch (error) {
        call.signal.throwIfAborted();
        const judged = this.#judge(error, request);
        const pauseMs = isGivenOut || tries >= TRIES_MAX ? undefined : this.#pauseBefore(tries, judged);
        if (pauseMs === undefined) throw judged.failure;
        await pause(pauseMs, call.signal);
      }
    }
  }

  #judge(error: unknown, { prompt }: LanguageModelV4CallOptions): Judged {
    const { secrets = [], keyRemedy = "Check the API key" } = this.#options;
    const cleaned = (words: string): string => cleanedWords(words, secrets, prompt);
    return judge(error, { modelId: this.id, keyRemedy, cleaned });
  }

  /** Undefined: not worth another try. */
  #pauseBefore(tries: number, { failure, isPassing }: Judged): number | undefined {
    if (!isPassing) return undefined;
    const { backoffMs, retryAfterMsMax } = this.#patience;
    if (failure.retryAfterMs === undefined) return Math.random() * backoffMs * 2 ** (tries - 1);
    return failure.retryAfterMs <= retryAfterMsMax ? failure.retryAfterMs : undefined;
  }

  async *#attempt(
    model: LanguageModelV4,
    request: LanguageModelV4CallOptions,
    signal: AbortSignal,
  ): AsyncGenerator<ModelPart> {
    const watch = new SilenceWatch(this.#patience.firstPartMs);
    const reader = new PartReader();
    let ending: ReadableStreamDefaultReader<unknown> | undefined;
    try {
      const abortSignal = AbortSignal.any([signal, watch.signal]);
      const { stream } = await watch.orSilence(model.doStream({ ...request, abortSignal }));
      const parts = stream.getReader();
      while (ending === undefined) {
        const { done, value } = await watch.orSilence(parts.read());
        if (done) throw new StreamBroken(undefined);
        if (value.type !== "stream-start") watch.heard(this.#patience.betweenPartsMs);
        for (const part of reader.read(value)) {
          if (part.kind === "finish") ending = parts;
          watch.pause();
          yield part;
          watch.heard(this.#patience.betweenPartsMs);
        }
      }
    } finally {
      if (ending === undefined) watch.stop();
      else void watch.letEnd(ending);
    }
  }
}

/** Ends a request that has gone silent; the time in which the caller is busy with a part does not count. */
class SilenceWatch {
  readonly #controller = new AbortController();
  #timer: NodeJS.Timeout | undefined;

  constructor(firstMs: number) {
    this.heard(firstMs);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  heard(waitMs: number): void {
    this.pause();
    this.#timer = setTimeout(() => this.#controller.abort(new Silence(waitMs)), waitMs);
  }

  pause(): void {
    clearTimeout(this.#timer);
  }

  /** All is said: what is left to read is read, so that the connection can be used again. */
  async letEnd(parts: ReadableStreamDefaultReader<unknown>): Promise<void> {
    this.heard(ENDING_MS);
    try {
      while (!(await parts.read()).done);
    } catch {
      // The answer is complete; how its connection ends changes nothing.
    } finally {
      this.stop();
    }
  }

  /** The request is over for us: closes its connection if it is still open. */
  stop(): void {
    this.pause();
    this.#controller.abort();
  }

  /** What a provider's code makes of an abort differs; this is what it was. */
  async orSilence<Value>(pending: PromiseLike<Value>): Promise<Value> {
    try {
      return await pending;
    } catch (error) {
      const reason: unknown = this.signal.reason;
      throw reason instanceof Silence ? reason : error;
    }
  }
}

async function pause(pauseMs: number, signal: AbortSignal): Promise<void> {
  try {
    await delay(pauseMs, undefined, { signal });
  } catch {
    signal.throwIfAborted();
  }
}
