/** The gateway's HTTP: what it asks for, and what is mounted on a port. */
export type {
  Answer,
  ChatCall,
  EventsCall,
  GatewayAnswers,
  KeptAnswers,
  KeyedCall,
  StopCall,
} from "./answers.ts";
export { gatewayHttp, type GatewayHttpOptions } from "./gateway-http.ts";
export { HTTP_LIMITS, type HttpLimits } from "./http-limits.ts";
export type { GatewayMount, Guest, Limits, MountedCall } from "./mounted.ts";
export { NO_PROVIDERS, type PassRefusal, type PassTarget, type ProviderSide } from "./provider-side.ts";
