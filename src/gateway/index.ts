/** The OpenAI-compatible gateway: sessions that survive between requests and restarts. */
export { Gateway } from "./gateway.ts";
export type { GatewayCounters } from "./counters.ts";
export {
  gatewayHttp,
  type GatewayAnswers,
  type HttpLimits,
  type KeptAnswers,
  NO_PROVIDERS,
  type PassRefusal,
  type PassTarget,
  type ProviderSide,
} from "./http/index.ts";
export { eraseRows } from "./erasing.ts";
export type { HeldStream, HeldStreams } from "./left-streams.ts";
export type { Neighbours } from "./neighbours.ts";
export { GATEWAY_LIMITS, GATEWAY_STREAMS, type GatewayLimits, type GatewayOptions } from "./options.ts";
export type { ListedModel } from "./openai/index.ts";
export type { Workspace } from "./own-execs.ts";
export type { Spending } from "./spending.ts";
export type { OpenSession, SessionRecord } from "./session-record.ts";
