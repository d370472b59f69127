/** The agent: turns with models and tools, as an application of a Holdfast server. */
export { type AgentOptions, createAgent } from "./agent.ts";
export * from "./model.ts";
export { TURN_LIMITS, type TurnLimits } from "./turn.ts";
