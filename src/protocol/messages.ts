/**
 * The generated messages of the agent level, and the two services.
 *
 * The messages of the reliable layer are not here: `frames.ts` and the codecs stand for them, so that
 * no code works with an envelope that was not checked.
 */
export * from "./gen/holdfast/v1/agent_pb.ts";
export * from "./gen/holdfast/v1/blob_pb.ts";
export * from "./gen/holdfast/v1/conversation_pb.ts";
export * from "./gen/holdfast/v1/exec_pb.ts";
export * from "./gen/holdfast/v1/interaction_pb.ts";
export * from "./gen/holdfast/v1/kv_pb.ts";
export * from "./gen/holdfast/v1/step_options_pb.ts";
export * from "./gen/holdfast/v1/tools_pb.ts";
export { StreamService } from "./gen/holdfast/v1/stream_pb.ts";
