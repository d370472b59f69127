/** Hosts streams: give it a store, an application and a transport. */
export type { ApiKeyLimits } from "./api-key-limits.ts";
export { ApiKeys, type ApiKeyRecord, type ApiKeysOptions, type CreatedApiKey } from "./api-keys.ts";
export type {
  Application,
  ApplicationBlobs,
  ApplicationStream,
  ClientInput,
  PastEvent,
} from "./application.ts";
export { countedLog } from "./counted-log.ts";
export { newServerCounters, type ServerCounters } from "./counters.ts";
export type { TurnStallNews } from "./host-context.ts";
export { LastingServer, type LastingOptions, type Standing, type StoreNews } from "./lasting-server.ts";
export { Spending } from "./spending.ts";
export { createServer, type Server, type ServerOptions, type StandingServer } from "./server.ts";
