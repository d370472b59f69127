/**
 * The models that are offered when none is configured: a few of each provider, the first being its default.
 *
 * A list and no gate: every other name of a provider is passed on to it. Sizes are what the model reads at the
 * least, so that a conversation is summarized too early rather than refused.
 */
import type { ProviderType } from "./dialect.ts";

interface OfferedModel {
  readonly name: string;
  readonly contextTokensMax: number | undefined;
}

const CLAUDE = 200_000;
const GPT = 272_000;
const GEMINI = 1_000_000;

export const OFFERED: Readonly<Record<ProviderType, readonly OfferedModel[]>> = {
  anthropic: [
    { name: "claude-sonnet-5-5", contextTokensMax: CLAUDE },
    { name: "claude-opus-5-5", contextTokensMax: CLAUDE },
    { name: "claude-haiku-5-5", contextTokensMax: CLAUDE },
  ],
  openai: [
    { name: "gpt-5.5", contextTokensMax: GPT },
    { name: "gpt-6-sol", contextTokensMax: GPT },
    { name: "gpt-6-luna", contextTokensMax: GPT },
    { name: "gpt-5.4-mini", contextTokensMax: GPT },
  ],
  google: [
    { name: "gemini-flash-latest", contextTokensMax: GEMINI },
    { name: "gemini-pro-latest", contextTokensMax: GEMINI },
    { name: "gemini-flash-lite-latest", contextTokensMax: GEMINI },
  ],
  // Only the server knows: it is asked (`discover`).
  "openai-compatible": [],
  rehearsal: [{ name: "rehearsal", contextTokensMax: undefined }],
};
