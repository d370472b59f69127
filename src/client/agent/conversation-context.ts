/**
 * What the conversations of one client share.
 */
import type { MessageInitShape } from "../../protocol/message.ts";
import type { EnvironmentSchema } from "../../protocol/messages.ts";
import type { Client } from "../client.ts";
import type { ClientBlobStore } from "./blob-store.ts";
import type { OnQuery } from "./turn.ts";
import type { ConversationStore } from "./conversation-store.ts";
import type { OfferedTools } from "./run-request.ts";
import type { SplitOptions } from "./split-stream.ts";
import type { Turn } from "./turn.ts";

/** What conversations take of a client. */
export type ConversationClient = Pick<
  Client,
  "open" | "resume" | "takeOver" | "follow" | "resumeAll" | "limitTools"
>;

export interface ConversationContext {
  readonly client: ConversationClient;
  readonly blobs: ClientBlobStore;
  readonly records: ConversationStore;
  readonly environment: MessageInitShape<typeof EnvironmentSchema> | undefined;
  readonly tools: OfferedTools;
  readonly onQuery: OnQuery | undefined;
  readonly split: SplitOptions;
  readonly onBug: (bug: unknown) => void;
  readonly now: () => number;
  /** A random name: 32 hexadecimal digits. */
  readonly newId: () => string;
  /** The turns that this client follows, by the idempotency keys of their streams. */
  readonly turns: Map<string, Turn>;
}
