export { PROVIDER_TYPES, type ProviderType } from "./dialect.ts";
export type { Environment, ProviderConfig } from "./providers.ts";
export {
  createModels,
  type ModelLimits,
  type ModelsConfig,
  type ModelsOptions,
  type ProviderModels,
  type ProviderAccess,
  type ServedModel,
} from "./registry.ts";
export { rehearsalModel } from "./rehearsal.ts";
export { unspokenBy } from "./words.ts";
export { DEFAULT_PATIENCE, type Patience } from "./patience.ts";
