/**
 * The models' providers, as the gateway's HTTP asks for them: the gateway cannot name the agent, so the program that starts both joins them.
 */
import { ModelFailure } from "../agent/index.ts";
import { type ProviderModels, type ServedModel, unspokenBy } from "../agent/models/index.ts";
import type { ProviderSide } from "../gateway/index.ts";

export function providerSide(models: ProviderModels): ProviderSide {
  return {
    unspoken: (modelId, names) => {
      const served = servedBy(models, modelId);
      return served === undefined ? [] : unspokenBy(served.type, names);
    },
    rateLimits: (modelId) => servedBy(models, modelId)?.rateLimits ?? {},
  };
}

/** Undefined for a model that there is not: whoever answers for it says so. */
function servedBy(models: ProviderModels, modelId: string): ServedModel | undefined {
  try {
    return models.served(modelId);
  } catch (error) {
    if (error instanceof ModelFailure) return undefined;
    throw error;
  }
}
