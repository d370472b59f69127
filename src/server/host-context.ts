/**
 * What everything on a server that deals with one stream is given.
 */
import type * as host from "../core/host-state.ts";
import type { StallNews } from "../core/standstill.ts";
import type { StreamName } from "../core/stream-state.ts";
import type { SyncSealing } from "../sealing/index.ts";
import type { Letters } from "../store/letters.ts";
import type { StreamStore } from "../store/stream-store.ts";
import type { Environment, SteadyClock } from "../transport/environment.ts";
import type { AcceptedMeta, Payer } from "../transport/transport.ts";
import type { Application } from "./application.ts";
import type { ServerCounters } from "./counters.ts";
import type { StreamBlobs } from "./stream-blobs.ts";

export interface HostContext {
  readonly store: StreamStore;
  /** Undefined where this node shares its store with no other. */
  readonly letters: Letters | undefined;
  readonly sealing: SyncSealing;
  readonly environment: Environment;
  readonly clock: SteadyClock;
  readonly application: Application;
  /** Undefined where this server keeps no blobs. */
  readonly blobs: StreamBlobs | undefined;
  /** Rejects a stream whose payer has spent what it may; undefined where no API key has such a limit. */
  readonly admit: ((stream: StreamName, payer: Payer) => Promise<void>) | undefined;
  readonly options: host.Options;
  readonly counters: ServerCounters;
  /** Called with every bug: a failed assertion or anything else that should be impossible. */
  readonly onBug: (bug: unknown) => void;
  /** Never throws. */
  readonly onStall: (news: TurnStallNews) => void;
}

/** A running turn stands still, or moves again. */
export type TurnStallNews = StallNews & StreamName;

/** A connection, and the conversation that it brings the key of. */
export type Attaching = Pick<AcceptedMeta, "conversation"> & { readonly connection: number };
