/**
 * The providers' SDKs, each imported at its first call: a server that uses one of them starts as fast as one that uses none.
 */
import type { LanguageModelV4 } from "@ai-sdk/provider";
import { NAMESPACES } from "./dialect.ts";
import { markedNumbersFetch, plainNumbers } from "./google-numbers.ts";
import { chatBody } from "./chat-body.ts";
import type { Fetch, HttpProvider } from "./providers.ts";
import { verbatimFetch } from "./verbatim.ts";

export async function loadModel(
  provider: HttpProvider,
  model: string,
  apiKey: string | undefined,
  fetch: Fetch,
): Promise<LanguageModelV4> {
  const { dialect, baseURL } = provider;
  const settings = { baseURL, headers: { ...provider.headers }, fetch: verbatimFetch(fetch) };
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
      const marking = { ...keyed, fetch: markedNumbersFetch(settings.fetch) };
      return plainNumbers(createGoogleGenerativeAI(marking).languageModel(model));
    }
    case "openai-compatible": {
      const { OpenAICompatibleChatLanguageModel } = await import("@ai-sdk/openai-compatible");
      // The SDK's provider would make address and headers anew for each request.
      const url = new URL(`${baseURL.replace(/\/$/, "")}/chat/completions`).href;
      const authorization = (apiKey ?? "") === "" ? {} : { Authorization: `Bearer ${apiKey}` };
      const headers = { ...authorization, ...settings.headers };
      return new OpenAICompatibleChatLanguageModel(model, {
        provider: `${NAMESPACES[dialect]}.chat`,
        url: () => url,
        headers: () => headers,
        fetch: settings.fetch,
        includeUsage: true,
        supportsStructuredOutputs: true,
        transformRequestBody: chatBody,
      });
    }
  }
}
