/**
 * What the gateway's HTTP asks of the models' providers beside answers: what they have no word for, what is left of their limits, and
 * where to pass requests that are no conversation.
 */
export interface ProviderSide {
  /** Those of OpenAI's names that the model's provider is not given. */
  unspoken(modelId: string, names: readonly string[]): readonly string[];
  /** Headers that say what is left of the provider's limits, as far as it has said. */
  rateLimits(modelId: string): Readonly<Record<string, string>>;
}

/** Nothing is known of who serves the models. */
export const NO_PROVIDERS: ProviderSide = {
  unspoken: () => [],
  rateLimits: () => ({}),
};
