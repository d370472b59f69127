/** The contract: frames, messages, error codes and limits. Imports nothing of ours. */
export * from "./append-codec.ts";
export * from "./chat-message.ts";
export * from "./errors.ts";
export * from "./exec-codec.ts";
export { decodeClientFrame, decodeServerFrame, encodeClientFrame, encodeServerFrame } from "./frame-codec.ts";
export type { AddressedClientFrame } from "./frame-codec.ts";
export type * from "./frames.ts";
export * from "./id-pages.ts";
export * from "./limits.ts";
export * from "./listen-codec.ts";
export * from "./messages.ts";
export { SharedEvent } from "./shared-event.ts";
