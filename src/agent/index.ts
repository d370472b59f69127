/** The agent: turns with models and tools, as an application of a Holdfast server. */
export { type AgentOptions, createAgent, TURN_LIMITS } from "./agent.ts";
export * from "./model.ts";
export { RESTART_ONLY } from "../turn/found.ts";
export type { TurnLimits } from "../turn/next.ts";
