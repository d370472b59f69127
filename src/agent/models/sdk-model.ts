/**
 * A `Model` over any model of the AI SDK's provider interface.
 *
 * One call is one request, or up to three: while nothing has been given out, a failure that passes (a rate limit, an
 * overloaded server, an answer that breaks off or stays away) is tried again. After the first part a call never starts over by itself: what
 * breaks then is thrown, and the turn decides. What becomes of the connection is `UpstreamCall`'s business, below the SDK.
 *
 * Invariant: the request ends when the caller stops listening, whatever the reason.
 */
import type { LanguageModelV4, LanguageModelV4CallOptions } from "@ai-sdk/provider";
import { setTimeout as delay } from "node:timers/promises";
import type { Model, ModelCall, ModelFailure, ModelPart, RequestBudget } from "../model.ts";
import { callOptionsOf } from "./call-options.ts";
import type { Dialect } from "./dialect.ts";
import { judge, StreamBroken } from "./failures.ts";
import { pauseMsBefore } from "../../turn/attempts.ts";
import { DEFAULT_PATIENCE, type Patience } from "./patience.ts";
import { promptOf } from "./prompt.ts";
import type { Fetch } from "./providers.ts";
import { cleanedWords } from "./provider-words.ts";
import { PartReader } from "./stream-parts.ts";
import type { BreakReport } from "./upstream/provider-break.ts";
import { UpstreamCall } from "./upstream/upstream-call.ts";

/** Three requests at the most: more would hide a problem and cost money. */
const TRIES_MAX = 3;

export interface SdkModelOptions {
  /** `provider/model`. */
  readonly id: string;
  readonly dialect: Dialect;
  /** Called for each request, with the `fetch` that is to be used. May throw a `ModelFailure`. */
  readonly load: (fetch: Fetch) => LanguageModelV4 | Promise<LanguageModelV4>;
  readonly fetch: Fetch;
  readonly contextTokensMax?: number | undefined;
  readonly outputTokensMax?: number | undefined;
  /** Never shown in a message. */
  readonly secrets?: readonly string[];
  /** How the user puts a wrong API key right. */
  readonly keyRemedy?: string;
  readonly patience?: Partial<Patience>;
  readonly onBreak?: (report: BreakReport) => void;
}

export function sdkModel(options: SdkModelOptions): Model {
  return new SdkModel(options);
}

const UNBOUNDED: RequestBudget = { take: () => Promise.resolve(), mayWait: () => true };

class SdkModel implements Model {
  readonly id: string;
  readonly contextTokensMax: number | undefined;
  readonly #options: SdkModelOptions;
  readonly #patience: Patience;
  /** What its calls have shown of the provider. */
  readonly #provider = { pings: false };

  constructor(options: SdkModelOptions) {
    this.id = options.id;
    this.contextTokensMax = options.contextTokensMax;
    this.#options = options;
    this.#patience = { ...DEFAULT_PATIENCE, ...options.patience };
  }

  async *call(call: ModelCall): AsyncGenerator<ModelPart> {
    const { dialect, outputTokensMax } = this.#options;
    const { signal, requests = UNBOUNDED } = call;
    const request = {
      ...callOptionsOf(call, dialect, outputTokensMax),
      prompt: await promptOf(call, dialect),
    };
    let isGivenOut = false;
    for (let tries = 1; ; tries++) {
      // Ends of items in which nothing was said: with a try that breaks behind them they go, and the next one brings its own.
      const held: ModelPart[] = [];
      try {
        for await (const part of this.#attempt(request, requests, signal)) {
          const isSilent = part.kind === "text_end" || part.kind === "thinking_end";
          if (isSilent && !isGivenOut) {
            held.push(part);
            continue;
          }
          isGivenOut = true;
          yield* held.splice(0);
          yield part;
        }
        return;
      } catch (error) {
        signal.throwIfAborted();
        const failure = this.#judge(error, request);
        const isLast = isGivenOut || tries >= TRIES_MAX || !failure.isPassing;
        const pauseMs = isLast
          ? undefined
          : pauseMsBefore(tries, failure.retryAfterMs, this.#patience, Math.random());
        if (pauseMs === undefined || !requests.mayWait(pauseMs)) throw failure;
        await pause(pauseMs, signal);
      }
    }
  }

  #judge(error: unknown, { prompt }: LanguageModelV4CallOptions): ModelFailure {
    const { secrets = [], keyRemedy = "Check the API key" } = this.#options;
    const cleaned = (words: string): string => cleanedWords(words, secrets, prompt);
    return judge(error, { modelId: this.id, keyRemedy, cleaned });
  }

  async *#attempt(
    request: LanguageModelV4CallOptions,
    requests: RequestBudget,
    signal: AbortSignal,
  ): AsyncGenerator<ModelPart> {
    const { dialect, fetch, load, onBreak = () => undefined } = this.#options;
    const upstream = new UpstreamCall({
      dialect,
      fetch,
      clocks: this.#patience,
      provider: this.#provider,
      onRequest: () => requests.take(),
      onBreak,
    });
    const stop = new AbortController();
    const reader = new PartReader();
    let isWhole = false;
    try {
      const model = await load(upstream.fetch);
      const abortSignal = AbortSignal.any([signal, stop.signal]);
      const { stream } = await model.doStream({ ...request, abortSignal });
      const parts = stream.getReader();
      while (!isWhole) {
        const { done, value } = await parts.read();
        if (done) throw new StreamBroken(undefined);
        for (const part of reader.read(value)) {
          // What an SDK makes of a body that broke: a call without its end is none (G3).
          if (upstream.broken !== undefined && (part.kind === "tool_call" || part.kind === "finish"))
            throw upstream.broken;
          isWhole = part.kind === "finish";
          yield part;
        }
      }
    } catch (error) {
      throw upstream.broken ?? error;
    } finally {
      if (!isWhole) stop.abort();
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
