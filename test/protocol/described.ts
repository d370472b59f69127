/** The messages with the descriptors of `@bufbuild/protobuf`, against which our own codec is held, and which can be asked for their fields. */
export * from "../../src/protocol/gen/holdfast/v1/agent_pb.ts";
export * from "../../src/protocol/gen/holdfast/v1/blob_pb.ts";
export * from "../../src/protocol/gen/holdfast/v1/conversation_pb.ts";
export * from "../../src/protocol/gen/holdfast/v1/errors_pb.ts";
export * from "../../src/protocol/gen/holdfast/v1/exec_pb.ts";
export * from "../../src/protocol/gen/holdfast/v1/interaction_pb.ts";
export * from "../../src/protocol/gen/holdfast/v1/kv_pb.ts";
export * from "../../src/protocol/gen/holdfast/v1/step_options_pb.ts";
export * from "../../src/protocol/gen/holdfast/v1/stream_pb.ts";
export * from "../../src/protocol/gen/holdfast/v1/tools_pb.ts";
