/**
 * The providers' SDKs, each imported at its first call: a server that uses one of them starts as fast as one that uses none.
 */
import type { LanguageModelV4 } from "@ai-sdk/provider";
import { NAMESPACES } from "./dialect.ts";
import { markedNumbersFetch, plainNumbers } from "./google-numbers.ts";
import { chatBody } from "./chat-body.ts";
import type { Fetch, HttpProvider } from "./providers.ts";
import { TAKEN } from "./upstream/given-events.ts";
import { verbatimFetch } from "./verbatim.ts";

export async function loadModel(
  provider: HttpProvider,
  model: string,
  apiKey: string | undefined,
  fetch: Fetch,
): Promise<Pick<LanguageModelV4, "doStream">> {
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
      const authorization = (apiKey ?? "") === "" ? {} : { Authorization: `Bearer ${apiKey}` };
      const url = new URL(`${baseURL.replace(/\/$/, "")}/chat/completions`).href;
      return chatModel(model, url, { ...authorization, ...settings.headers }, settings.fetch);
    }
  }
}

/**
 * The SDK's provider would make address and headers anew for each request, and its model what reads an answer, which is read here: only the body is the SDK's.
 */
async function chatModel(
  model: string,
  url: string,
  headers: Readonly<Record<string, string>>,
  fetch: Fetch,
): Promise<Pick<LanguageModelV4, "doStream">> {
  const { OpenAICompatibleChatLanguageModel } = await import("@ai-sdk/openai-compatible");
  const { getRuntimeEnvironmentUserAgent, VERSION, withUserAgentSuffix } =
    await import("@ai-sdk/provider-utils");
  const named = withUserAgentSuffix(
    { "Content-Type": "application/json", ...headers },
    `ai-sdk-provider-utils/${VERSION}`,
    getRuntimeEnvironmentUserAgent(),
  );
  /** What came of requests without an answer, by their signals: the SDK reads it. */
  const said = new WeakMap<object, Promise<Response>>();
  const sdk = new OpenAICompatibleChatLanguageModel(model, {
    provider: `${NAMESPACES["openai-compatible"]}.chat`,
    url: () => url,
    headers: () => headers,
    fetch: (input, init) => said.get(init?.signal ?? said) ?? fetch(input, init),
    includeUsage: true,
    supportsStructuredOutputs: true,
    transformRequestBody: chatBody,
  });
  const doStream: LanguageModelV4["doStream"] = async (options) => {
    const { abortSignal: signal = new AbortController().signal } = options;
    const { body: asked } = await sdk.prepareRequest(options);
    const body = JSON.stringify({ ...asked, stream: true, stream_options: { include_usage: true } });
    const response = fetch(url, { method: "POST", headers: named, body, signal });
    await response.catch((error: unknown) => {
      if (error === TAKEN) throw error;
    });
    said.set(signal, response);
    return sdk.doStream({ ...options, abortSignal: signal });
  };
  return { doStream };
}
