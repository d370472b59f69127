/**
 * What a stream's driver is given: the client's side of the world, and where this stream begins.
 */
import type { Options } from "../core/client-state.ts";
import type { Recovered } from "../core/journal.ts";
import type { Role } from "../protocol/frames.ts";
import type { Sealer, Sealing } from "../sealing/index.ts";
import type { Environment } from "../transport/environment.ts";
import type { BlobCalls, Connect, ConversationAccess } from "../transport/transport.ts";
import type { JournalStore } from "./journal-store.ts";
import type { StreamStallNews } from "./stall-account.ts";
import type { ToolLimit } from "./tool-limits.ts";
import type { ToolRunner } from "./tool-runner.ts";

export interface StreamContext {
  readonly connect: Connect;
  readonly blobs: BlobCalls | undefined;
  /** Fires when the client is closed. */
  readonly closing: AbortSignal;
  /** Where this stream's journal is; undefined: it keeps none. */
  readonly journals: JournalStore | undefined;
  readonly journalSealer: Sealer;
  /** Names blobs. */
  readonly sha256: Sealing["sha256"];
  readonly environment: Environment;
  readonly options: Options;
  readonly tools: ToolRunner | undefined;
  /** May grow. */
  readonly toolLimits: readonly ToolLimit[];
  readonly journalRecordsMax: number;
  /** Asked before the first connection, and once more when the server refuses what it gave. */
  readonly credentials: () => Promise<string | undefined>;
  readonly onBug: (bug: unknown) => void;
  /** Never throws. */
  readonly onStall: (news: StreamStallNews) => void;
}

export interface StreamBeginning {
  readonly idempotencyKey: string;
  readonly streamKey: Uint8Array;
  readonly conversation: ConversationAccess | undefined;
  readonly role: Role;
  readonly journal: Recovered;
  readonly journalLength: number;
  readonly fresh: boolean;
  readonly autoResume: boolean;
  readonly peeks: boolean;
}
