/**
 * Who serves a model, and how its provider is reached for what OpenAI has an API for beside conversations.
 */
import type { ProviderType } from "./dialect.ts";
import type { LimitHeaders } from "./rate-limits.ts";

export interface ServedModel {
  readonly provider: string;
  /** As the provider calls it. */
  readonly model: string;
  readonly type: ProviderType;
  /** Headers of the provider's newest answer that say what is left of its limits. */
  readonly rateLimits: LimitHeaders;
  /** For what OpenAI has an API for beside conversations; undefined when the provider speaks otherwise. Throws without an API key. */
  readonly access: () => ProviderAccess | undefined;
}

export interface ProviderAccess {
  readonly baseURL: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly secrets: readonly string[];
}
