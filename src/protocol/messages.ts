/**
 * The generated messages of the agent level, and the two services.
 *
 * The messages of the reliable layer are not here: `frames.ts` and the codecs stand for them, so that
 * no code works with an envelope that was not checked.
 */
export * from "./gen/holdfast/v1/agent.ts";
export * from "./gen/holdfast/v1/blob.ts";
export * from "./gen/holdfast/v1/conversation.ts";
export * from "./gen/holdfast/v1/exec.ts";
export * from "./gen/holdfast/v1/interaction.ts";
export * from "./gen/holdfast/v1/kv.ts";
export * from "./gen/holdfast/v1/step_options.ts";
export * from "./gen/holdfast/v1/tools.ts";
