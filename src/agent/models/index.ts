export { PROVIDER_TYPES, type ProviderType } from "./dialect.ts";
export type { Environment, ProviderConfig } from "./providers.ts";
export {
  createModels,
  type ModelLimits,
  type ModelsConfig,
  type ModelsOptions,
  type ProviderModels,
} from "./registry.ts";
export type { AskingStream, ContinuedBy } from "./provider-counters.ts";
export type { ProviderAccess, ServedModel } from "./served-model.ts";
export { rehearsalModel } from "./rehearsal.ts";
export { unspokenBy } from "./words.ts";
export { DEFAULT_PATIENCE, type Patience } from "./patience.ts";
