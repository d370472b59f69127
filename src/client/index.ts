/** The client of Holdfast streams, for Node and browsers alike. */
export { inspect } from "../core/auto-resume.ts";
export {
  DEFAULTS as STREAM_DEFAULTS,
  type LiveState,
  type Options as StreamOptions,
} from "../core/client-state.ts";
export type { Outcome } from "../core/journal.ts";
export { type StallCounts, stallLine } from "../core/standstill.ts";
export * from "./agent/index.ts";
export { Client } from "./client.ts";
export type { ClientOptions, KeptConversation, OpenOptions } from "./client-options.ts";
export type { ConversationBlobs } from "./conversation-blobs.ts";
export type { StreamEvent } from "./event-queue.ts";
export type { JournalStore } from "./journal-store.ts";
export { memoryJournalStore } from "./memory-journal-store.ts";
export type { ResumeReport } from "./resume-report.ts";
export type { OnStall, StreamStallNews } from "./stall-account.ts";
export type { StreamSettings } from "./stream-options.ts";
export type { StreamStatus } from "./status.ts";
export type { ClientStream } from "./stream.ts";
export type { ToolLimit } from "./tool-limits.ts";
export { type ToolRunner, toolRunner } from "./tool-runner.ts";
export type { Approval, ToolPolicy, ToolRun, Tools } from "./tools.ts";
export type { WriterLock, WriterLocks } from "./writer-locks.ts";
