/**
 * What the gateway's HTTP asks of the models' providers beside answers: what they have no word for, what is left of their limits, and
 * where to pass requests that are no conversation.
 */
export interface ProviderSide {
  /** Those of OpenAI's names that the model's provider is not given. */
  unspoken(modelId: string, names: readonly string[]): readonly string[];
  /** Headers that say what is left of the provider's limits, as far as it has said. */
  rateLimits(modelId: string): Readonly<Record<string, string>>;
  /** Where a request goes that is no conversation, or why it goes nowhere. The path begins with /v1/. */
  target(modelId: string, path: string): PassTarget | PassRefusal;
}

export interface PassTarget {
  /** As the operator calls it. */
  readonly provider: string;
  readonly url: URL;
  /** As the provider calls it. */
  readonly model: string;
  /** The provider's credentials among them. */
  readonly headers: Readonly<Record<string, string>>;
  /** Taken out of what the provider says before a client gets it; none is empty. */
  readonly secrets: readonly string[];
}

export interface PassRefusal {
  /** Whole sentences that say what to do. */
  readonly refusal: string;
}

/** The gateway knows nothing of its models' providers. */
export const NO_PROVIDERS: ProviderSide = {
  unspoken: () => [],
  rateLimits: () => ({}),
  target: () => ({ refusal: "This gateway knows no provider; ask the server's operator to configure one." }),
};
