/**
 * What differs between providers once the AI SDK has taken care of their wire formats: a few names.
 *
 * Everything else in this folder is the same for all of them, and asks here.
 */
export const PROVIDER_TYPES = ["openai", "anthropic", "google", "openai-compatible", "rehearsal"] as const;
export type ProviderType = (typeof PROVIDER_TYPES)[number];

/** The ones that are reached over HTTP. */
export type Dialect = Exclude<ProviderType, "rehearsal">;

/**
 * Under which name a provider's own options and metadata go through the SDK. Fixed, whatever the provider
 * is called in the configuration: the metadata of a stored conversation stays readable when that changes.
 */
export const NAMESPACES: Readonly<Record<Dialect, string>> = {
  openai: "openai",
  anthropic: "anthropic",
  google: "google",
  "openai-compatible": "compatible",
};

/** The environment variable that people already have. */
export const KEY_VARIABLES: Readonly<Record<Dialect, string | undefined>> = {
  openai: "OPENAI_API_KEY",
  anthropic: "ANTHROPIC_API_KEY",
  google: "GOOGLE_GENERATIVE_AI_API_KEY",
  "openai-compatible": undefined,
};
