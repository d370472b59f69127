/**
 * What a client remembers of each conversation: its name, its last checkpoint, the turn under way.
 *
 * A record is small; everything said is in blobs that the checkpoint names. Several processes or tabs may
 * share a store: a record is written over only by a writer that has seen it as it is, so of two that begin a
 * turn at the same time one is refused.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import type { ExecKind } from "../../protocol/messages.ts";
import { type ClientBlobStore, memoryBlobStore } from "./blob-store.ts";

/** What the user wants of a turn. */
export type TurnKind = "message" | "continue" | "summarize" | "shell";

export interface TurnUnderWay {
  /** Of its stream. */
  readonly idempotencyKey: string;
  readonly startedMs: number;
  readonly kind: TurnKind;
  /** SHA-256 of what began it, to know the same words again after a restart. */
  readonly saidSha256?: string;
  /** The beginning of these words, for people; empty when none began it. */
  readonly said?: string;
  /** The event of the checkpoint in the record, so that a replayed one never takes the place of a newer. */
  readonly checkpointEventId: number;
  /** How many turns and messages the conversation had when it began. */
  readonly turnsBefore: number;
  readonly messagesBefore: number;
  /** When it was offered less than the client can do: nothing else is carried out for it. */
  readonly offered?: OfferedNames;
}

/** What a turn was offered. */
export interface OfferedNames {
  readonly kinds: readonly ExecKind[];
  /** Of declared tools. */
  readonly tools: readonly string[];
}

/** How the turn before ended. */
export interface LastTurn {
  readonly idempotencyKey: string;
  readonly reason: "completed" | "aborted" | "failed" | "lost";
  /** Why, for people; empty when it is completed. */
  readonly message: string;
}

export interface ConversationRecord {
  readonly conversationId: string;
  readonly title: string;
  /** Empty: the server's default. */
  readonly model: string;
  /** Blob id of the text; undefined = the server's own. */
  readonly systemPromptBlobId?: string;
  readonly createdMs: number;
  readonly updatedMs: number;
  /** An encoded ConversationState, as it came. */
  readonly checkpoint?: Uint8Array;
  readonly turn?: TurnUnderWay;
  readonly lastTurn?: LastTurn;
  /** A subagent's conversation: the conversation that asked for it, and how deep it stands. */
  readonly parentId?: string;
  readonly subagentDepth?: number;
  /** Rises with every write; 0 = never written. */
  readonly version: number;
}

export interface ConversationStore {
  get(conversationId: string): Promise<ConversationRecord | undefined>;
  /**
   * Durable when it resolves, with the record as it is stored then. Rejects with `busy` when the stored one is
   * no longer the version that is given.
   */
  put(record: ConversationRecord): Promise<ConversationRecord>;
  /** In no particular order. */
  list(): Promise<readonly ConversationRecord[]>;
  remove(conversationId: string): Promise<void>;
}

export function changedElsewhere(conversationId: string): HoldfastError {
  return new HoldfastError(
    "busy",
    `conversation ${conversationId} was changed by another process or tab: open it again to see it as it is`,
  );
}

/** Records that end with the process. */
export function memoryConversationStore(): ConversationStore {
  const records = new Map<string, ConversationRecord>();
  return {
    get: async (conversationId) => records.get(conversationId),
    put: async (record) => {
      const { conversationId, version } = record;
      if ((records.get(conversationId)?.version ?? 0) !== version) throw changedElsewhere(conversationId);
      const stored = { ...record, version: version + 1 };
      records.set(conversationId, stored);
      return stored;
    },
    list: async () => [...records.values()],
    remove: async (conversationId) => void records.delete(conversationId),
  };
}

/** Where a client keeps its conversations. */
export interface ClientStores {
  readonly blobs: ClientBlobStore;
  readonly records: ConversationStore;
}

export function memoryStores(): ClientStores {
  return { blobs: memoryBlobStore(), records: memoryConversationStore() };
}
