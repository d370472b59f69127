/**
 * What programs use of the client, in Node and in browsers. Types are all there; of values only what a manual speaks of.
 */
export type * from "./index.ts";
export { Conversations } from "./agent/conversations.ts";
export { memoryStores } from "./agent/conversation-store.ts";
export { splitStream } from "./agent/split-stream.ts";
export { subagentRunner } from "./agent/subagent.ts";
export { DEFAULTS as STREAM_DEFAULTS } from "../core/client-state.ts";
export { stallLine } from "../core/standstill.ts";
export { spokenText } from "../turn/view.ts";
