/**
 * The models' providers, as the gateway's HTTP asks for them: the gateway cannot name the agent, so the program that starts both joins them.
 */
import { ModelFailure } from "../agent/index.ts";
import { type ProviderModels, type ServedModel, unspokenBy } from "../agent/models/index.ts";
import { NO_PROVIDERS, type PassRefusal, type PassTarget, type ProviderSide } from "../gateway/index.ts";

export function providerSide(models: ProviderModels): ProviderSide {
  return {
    unspoken: (modelId, names) => {
      const served = servedBy(models, modelId);
      return served === undefined ? [] : unspokenBy(served.type, names);
    },
    rateLimits: (modelId) => servedBy(models, modelId)?.rateLimits ?? {},
    target: (modelId, path) => targetOf(models, modelId, path),
  };
}

function targetOf(models: ProviderModels, modelId: string, path: string): PassTarget | PassRefusal {
  const served = servedBy(models, modelId);
  if (served === undefined || served.type === "rehearsal") return { refusal: unknown(models) };
  const { provider, model, type } = served;
  try {
    const access = served.access();
    if (access !== undefined) {
      const { baseURL, headers, secrets } = access;
      return {
        provider,
        model,
        headers,
        secrets,
        url: new URL(baseURL.replace(/\/+$/, "") + path.slice("/v1".length)),
      };
    }
  } catch (error) {
    if (!(error instanceof ModelFailure)) throw error;
    return { refusal: error.message };
  }
  return {
    refusal: `${provider} speaks ${type}, which has no such API: name a model of a provider of type openai or openai-compatible.`,
  };
}

function unknown(models: ProviderModels): string {
  return models.hasProviders
    ? "It is not clear which provider has this model: name it as provider/model, as in openai/text-embedding-3-small."
    : "No provider is configured: set OPENAI_API_KEY, or name an openai-compatible server under providers in holdfast.config.json.";
}

/** Another Holdfast server, which passes it on. */
export function serverSide(url: string, apiKey: string): ProviderSide {
  return {
    ...NO_PROVIDERS,
    target: (model, path) => ({
      provider: "the Holdfast server",
      url: new URL(path, url),
      model,
      headers: { authorization: `Bearer ${apiKey}` },
      secrets: [apiKey],
    }),
  };
}

/** Undefined for a model that there is not: the answer to the request says so. */
function servedBy(models: ProviderModels, modelId: string): ServedModel | undefined {
  try {
    return models.served(modelId);
  } catch (error) {
    if (error instanceof ModelFailure) return undefined;
    throw error;
  }
}
