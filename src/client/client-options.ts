/**
 * What a client is made with, and what a stream is opened with.
 */
import type { Sealing } from "../sealing/index.ts";
import type { Environment } from "../transport/environment.ts";
import type { BlobCalls, Connect } from "../transport/transport.ts";
import type { JournalStore } from "./journal-store.ts";
import type { OnStall } from "./stall-account.ts";
import type { StreamSettings } from "./stream-options.ts";
import type { ToolRunner } from "./tool-runner.ts";
import type { WriterLocks } from "./writer-locks.ts";

export interface ClientOptions<HomeKey = Uint8Array> {
  readonly connect: Connect;
  /** The same server's `BlobService`. Without it streams have no blobs. */
  readonly blobs?: BlobCalls | undefined;
  readonly sealing: Sealing<HomeKey>;
  /** One secret per scope; all stream keys are derived from it. */
  readonly homeKey: HomeKey;
  /** Whose conversations these are, where the clients of several principals share a home key. Default: one principal has it. */
  readonly principal?: string;
  /**
   * Where journals are kept. Left out, and while `persistence` is off, they live in memory: nothing survives a restart. `"none"`: for a client
   * in the server's own process, which resumes from the server's log alone and promises nothing before that log has it. Such a client
   * opens fresh names only, and runs no tools.
   */
  readonly journals?: JournalStore | "none";
  /** A journal goes with the end of its stream. Otherwise it stays, so that the next start learns how the stream ended. */
  readonly forgetsEnded?: boolean;
  /** Needed where several processes or tabs share `journals`: at most one of them writes to a stream. */
  readonly writerLocks?: WriterLocks;
  readonly environment?: Environment;
  readonly credentials?: () => Promise<string | undefined>;
  /** What this client carries out for the server: `toolRunner(tools)`. Without it execs are events like any other. */
  readonly tools?: ToolRunner;
  /**
   * What is left out, at any depth, is as `STREAM_DEFAULTS` says. A function is asked for each new stream, so what it returns
   * may change while the client runs; a running stream keeps what it began with. When it throws, or returns something wrong,
   * `onBug` hears of it and the last good settings stay.
   */
  readonly stream?: StreamSettings | (() => StreamSettings);
  /** A journal this long is folded and written anew, shorter. */
  readonly journalRecordsMax?: number;
  /** How many streams resume at the same time: one that is stuck must not block the rest. */
  readonly resumesMax?: number;
  readonly onBug?: (bug: unknown) => void;
  /** Called when a stream of this client stands still, and when it moves again: for a log. Default: nothing is printed. */
  readonly onStall?: OnStall;
}

/** A conversation that the server keeps for this client. */
export interface KeptConversation {
  readonly id: string;
  /** How long after its last turn; the server may bound it. */
  readonly keepMs: number;
}

export interface OpenOptions {
  readonly first?: Uint8Array;
  /** What the turn makes of it lies there, and outlives the stream. */
  readonly conversation?: KeptConversation;
  /** A name of your own; drawn at random when absent. Opening it again attaches to what is there. */
  readonly idempotencyKey?: string;
  /** The caller has just drawn the name at random, and never says so of it again: as good as one drawn here. */
  readonly isFresh?: boolean;
}
