/**
 * The providers' SDKs, each imported at its first call: a server that uses one of them starts as fast as one that uses none.
 */
import type { LanguageModelV4 } from "@ai-sdk/provider";
import { NAMESPACES } from "./dialect.ts";
import type { Fetch, HttpProvider } from "./providers.ts";

export async function loadModel(
  provider: HttpProvider,
  model: string,
  apiKey: string | undefined,
  fetch: Fetch,
): Promise<LanguageModelV4> {
  const { dialect, baseURL } = provider;
  const settings = { baseURL, headers: { ...provider.headers }, fetch };
  const keyed = { ...settings, apiKey: apiKey ?? "" };
  switch (dialect) {
    case "openai": {
      const { createOpenAI } = await import("@ai-sdk/openai");
      return createOpenAI(keyed).responses(model);
    }
    case "anthropic": {
      const { createAnthropic } = await import("@ai-sdk/anthropic");
      return createAnthropic(keyed).languageModel(model);
    }
    case "google": {
      const { createGoogleGenerativeAI } = await import("@ai-sdk/google");
      return createGoogleGenerativeAI(keyed).languageModel(model);
    }
    case "openai-compatible": {
      const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
      const shape = { name: NAMESPACES[dialect], includeUsage: true, supportsStructuredOutputs: true };
      return createOpenAICompatible({ ...(apiKey === undefined ? settings : keyed), ...shape }).chatModel(
        model,
      );
    }
  }
}
