/**
 * What providers say about their rate limits, model by model: the headers of the newest answer.
 *
 * They are true of the account, not of one answer, so the newest ones are as good for an answer whose own went by unseen.
 */
import type { Fetch } from "./providers.ts";
import { remember } from "./remembered.ts";
import { headersOf } from "./upstream/arriving-bytes.ts";

const NAME = /^(?:x-|anthropic-)ratelimit-[a-z0-9-]{1,48}$/;
const VALUE = /^[\x20-\x7e]{1,128}$/;
const HEADERS_MAX = 32;
const MODELS_MAX = 256;

export type LimitHeaders = Readonly<Record<string, string>>;

/** Of a provider's answer, those that say how much of its limits is left. */
export function limitHeaders(headers: readonly (readonly [string, string])[]): LimitHeaders {
  const found = headers.filter(([name, value]) => NAME.test(name) && VALUE.test(value));
  return Object.fromEntries(found.slice(0, HEADERS_MAX));
}

export class RateLimits {
  readonly #newest = new Map<string, LimitHeaders>();

  of(modelId: string): LimitHeaders {
    return this.#newest.get(modelId) ?? {};
  }

  /** `fetch` that remembers what it sees. */
  watched(modelId: string, fetch: Fetch): Fetch {
    return async (url, init) => {
      const response = await fetch(url, init);
      const seen = limitHeaders(headersOf(response));
      if (Object.keys(seen).length > 0) remember(this.#newest, modelId, seen, MODELS_MAX);
      return response;
    };
  }
}
