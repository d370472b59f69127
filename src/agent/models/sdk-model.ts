/**
 * A target over any model of the AI SDK's provider interface.
 *
 * One question is one request, but for providers that end a long answer in the middle. What becomes of the connection is `UpstreamCall`'s
 * business, below the SDK; what follows a failure is decided by the route of the call and by the turn.
 *
 * Invariant: the request ends when the caller stops listening, whatever the reason.
 */
import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4StreamPart,
} from "@ai-sdk/provider";
import type { ModelCall, ModelFailure, ModelPart } from "../model.ts";
import { callOptionsOf } from "./call-options.ts";
import type { ChatChunkReader } from "./chat-chunks.ts";
import type { Dialect } from "./dialect.ts";
import { markedBy } from "./own-words.ts";
import { judge, StreamBroken } from "./failures.ts";
import { DEFAULT_PATIENCE, type Patience } from "./patience.ts";
import type { TargetWatch } from "./provider-counters.ts";
import type { PrefillForm } from "./prefill.ts";
import { withPrefill } from "./prefilled-request.ts";
import { promptOf } from "./prompt.ts";
import type { Fetch } from "./providers.ts";
import { cleanedWords } from "./provider-words.ts";
import { PartReader } from "./stream-parts.ts";
import type { HeldRequests } from "./line/line-fetch.ts";
import type { Cooldown } from "./routing/health.ts";
import type { AskedTarget } from "./routing/routed-model.ts";
import { TAKEN } from "./upstream/given-events.ts";
import type { Time } from "./upstream/time.ts";
import { UpstreamCall } from "./upstream/upstream-call.ts";
import type { ProviderSeen } from "./upstream/upstream-options.ts";

interface SdkTargetOptions {
  /** `provider/model`. */
  readonly id: string;
  readonly dialect: Dialect;
  /** The form in which it gets the beginning of its answer, to write on behind it; undefined: it cannot. */
  readonly prefill?: PrefillForm | undefined;
  /** The names of its API keys. */
  readonly keys: readonly string[];
  readonly cooldown: Cooldown;
  /** Called for each request, with the API key that is to be used and a `fetch`, which is the same for all. May throw a `ModelFailure`. */
  readonly load: (fetch: Fetch, key: string | undefined) => Promise<Pick<LanguageModelV4, "doStream">>;
  /** Through the line, when the call's requests have names. */
  readonly fetch: (held: HeldRequests | undefined) => Fetch;
  readonly contextTokensMax?: number | undefined;
  readonly outputTokensMax?: number | undefined;
  /** Never shown in a message. */
  readonly secrets?: readonly string[];
  /** How the user puts a wrong API key right. */
  readonly keyRemedy?: string;
  readonly patience?: Partial<Patience>;
  /** Whether the provider may store answers, so that they can be read on behind a break. */
  readonly resume?: boolean | undefined;
  readonly watch?: (stream: ModelCall["stream"]) => TargetWatch;
  /** Default: the process's own. */
  readonly time?: Time;
}

export class SdkTarget implements AskedTarget {
  readonly id: string;
  readonly keys: readonly string[];
  readonly cooldown: Cooldown;
  readonly contextTokensMax: number | undefined;
  readonly patience: Patience;
  readonly #options: SdkTargetOptions;
  /** What its calls have shown of the provider. */
  readonly #provider: ProviderSeen = { pings: false };
  /** An SDK's model costs a millisecond to make, so all calls share it; a request's signal tells whose it is. */
  readonly #fetches = new WeakMap<object, Fetch>();
  readonly #fetch: Fetch = (input, init) => {
    const own = this.#fetches.get(init?.signal ?? this);
    if (own === undefined) throw new TypeError("a request of no call");
    return own(input, init);
  };

  constructor(options: SdkTargetOptions) {
    this.id = options.id;
    this.keys = options.keys;
    this.cooldown = options.cooldown;
    this.contextTokensMax = options.contextTokensMax;
    this.patience = { ...DEFAULT_PATIENCE, ...options.patience };
    this.#options = options;
  }

  async *ask(call: ModelCall, key: number, held?: HeldRequests): AsyncGenerator<ModelPart> {
    const { dialect, fetch, load, outputTokensMax, prefill: form, resume = false, time } = this.#options;
    const asked = {
      ...callOptionsOf(call, dialect, outputTokensMax),
      prompt: await promptOf(call, dialect, this.id),
    };
    const { prefill, requests, signal } = call;
    const request =
      prefill === undefined || form === undefined ? asked : withPrefill(asked, prefill, form, dialect);
    const watch = this.#options.watch?.(call.stream) ?? {};
    // A step has one budget, over all its attempts.
    const step = requests ?? call;
    const upstream = new UpstreamCall({
      dialect,
      fetch: fetch(held),
      clocks: this.patience,
      provider: this.#provider,
      resume,
      isHeld: held !== undefined,
      isReadByEvents: dialect === "openai-compatible",
      backoffMs: this.patience.backoffMs,
      // What is read again was counted when it was sent (G2).
      onRequest: async () => (held?.isHeld === true ? undefined : requests?.take()),
      watch,
      time,
    });
    // Not `AbortSignal.any`: Node keeps such a signal, and all that listens to it, for as long as its sources live, which is the whole turn.
    const stop = new AbortController();
    const leave = (): void => stop.abort(signal.reason);
    signal.addEventListener("abort", leave, { once: true });
    if (signal.aborted) leave();
    const reader = new PartReader();
    let hasContent = false;
    let isWhole = false;
    try {
      const model = await load(this.#fetch, this.keys[key]);
      const abortSignal = stop.signal;
      this.#fetches.set(abortSignal, upstream.fetch);
      for await (const parts of partsOf(model, { ...request, abortSignal }, upstream)) {
        for (const one of parts)
          for (const part of reader.read(one)) {
            // What is made of a body that broke: a call without its end is none (G3).
            if (upstream.broken !== undefined && (part.kind === "tool_call" || part.kind === "finish"))
              throw upstream.broken;
            isWhole = part.kind === "finish";
            if (!hasContent) watch.onContent?.(step);
            hasContent = true;
            yield markedBy(this.id, part);
          }
        if (isWhole) return;
      }
      throw new StreamBroken(undefined);
    } catch (error) {
      signal.throwIfAborted();
      watch.onLost?.(step);
      throw this.#judge(upstream.broken ?? error, request);
    } finally {
      signal.removeEventListener("abort", leave);
      // A collection of young objects takes what is in a weak map for alive.
      this.#fetches.delete(stop.signal);
      if (!isWhole) stop.abort();
    }
  }

  #judge(error: unknown, { prompt }: LanguageModelV4CallOptions): ModelFailure {
    const { secrets = [], keyRemedy = "Check the API key" } = this.#options;
    const cleaned = (words: string): string => cleanedWords(words, secrets, prompt);
    return judge(error, { modelId: this.id, keyRemedy, cleaned });
  }
}

/** At the first answer, as the SDKs are: a server that has no provider starts without it. */
let chatChunks: Promise<{ readonly ChatChunkReader: typeof ChatChunkReader }> | undefined;

/** The SDK writes the request and reads a refusal; it also reads answers in dialects that are not read here. */
async function* partsOf(
  model: Pick<LanguageModelV4, "doStream">,
  request: LanguageModelV4CallOptions,
  upstream: UpstreamCall,
): AsyncGenerator<readonly LanguageModelV4StreamPart[]> {
  try {
    const { stream } = await model.doStream(request);
    for await (const part of stream) yield [part];
  } catch (error) {
    if (error !== TAKEN) throw error;
    const { ChatChunkReader: Reader } = await (chatChunks ??= import("./chat-chunks.ts"));
    const chunks = new Reader();
    for (let isLast = false; !isLast;) {
      const given = await upstream.next();
      ({ isLast } = given);
      const parts = chunks.read(...given.events.map(({ value }) => value));
      yield isLast ? [...parts, ...chunks.end()] : parts;
    }
  }
}
