/**
 * What a gateway is given, with units, defaults and the reason for each.
 */
import type { Client } from "../client/index.ts";
import type { Sealer } from "../sealing/index.ts";
import type { TableStore } from "../store/table-store.ts";
import type { Environment } from "../transport/environment.ts";
import type { HeldStreams } from "./left-streams.ts";
import type { Neighbours } from "./neighbours.ts";
import type { ListedModel } from "./openai/index.ts";
import type { Workspace } from "./own-execs.ts";
import type { Spending } from "./spending.ts";

/** For the streams of its clients. One that runs degraded has no log, and a gateway answers from the log. */
export const GATEWAY_STREAMS = { allowDegraded: false } as const;

export interface GatewayOptions {
  /** One principal's way to the server, the same object each time. It has no tools: execs are the OpenAI client's to carry out. Its streams are as `GATEWAY_STREAMS` says. */
  readonly clientOf: (principal: string) => Client;
  readonly tables: TableStore;
  /** Seals rows under the home key. */
  readonly sealer: Sealer;
  /** 32 bytes that outlive the process: names of rows and tool calls follow from it. */
  readonly secret: Uint8Array;
  /** Of the home key that streams begin under: how often it was rotated. Default: 0. */
  readonly keyNumber?: number | undefined;
  /** What thoughts are sealed under, by the number of the home key. Default: `secret`, for 0. */
  readonly thoughts?: ReadonlyMap<number, Uint8Array> | undefined;
  readonly models: () => readonly ListedModel[];
  /** The id of a model that a client names; undefined when there is none. */
  readonly resolveModel: (name: string) => string | undefined;
  /** Lets the agent look at files beside what the client's tools do. Default: none, and only the client's tools are offered. */
  readonly workspace?: Workspace | undefined;
  /** Model calls that outlive this process. Default: none does. */
  readonly held?: HeldStreams | undefined;
  /** What API keys with tokens a day have spent. Default: it is counted nowhere, and they are refused. */
  readonly spending?: Spending | undefined;
  /** The other nodes on the same tables. Default: there can be none. */
  readonly neighbours?: Neighbours | undefined;
  readonly limits?: Partial<GatewayLimits>;
  /** Off: every request is a stream of its own (HOLDFAST_SESSION_REUSE=0). Default: on. */
  readonly isReusing?: boolean;
  /** Time, timers and random ids. */
  readonly environment: Environment;
  readonly onBug: (bug: unknown) => void;
}

export interface GatewayLimits {
  /** How long a session waits for its client: for tool results, or for the next message. */
  readonly sessionTtlMs: number;
  /** How long the server keeps a conversation after its last turn: at least as long as a session waits, and as an answer can be had again from its stream. */
  readonly conversationMs: number;
  /** Streams of one principal that are open: answers under way, and sessions that wait for tool results. */
  readonly openStreamsMax: number;
  /** A session that has waited for tool results for so long lets go of its stream until they come. */
  readonly restMs: number;
  /** What the sessions that wait for tool results may hold, of all principals; one may have half. */
  readonly parkedBytesMax: number;
  /** How long an answer without a reader is generated on, so that a retry can attach to it. */
  readonly graceMs: number;
  /** What a request may ask for instead (x-holdfast-patience); less than `graceMs` changes nothing. */
  readonly patienceMaxMs: number;
  /** Tool results continue a turn of fewer model calls than this; the server ends one at 200. */
  readonly turnStepsMax: number;
  /** How long an answer can be had again by its Idempotency-Key. */
  readonly idempotencyTtlMs: number;
  /** How long a response can be asked for by its id, and continued from; one with `store: false`: as long as `graceMs`. */
  readonly responseTtlMs: number;
  /** How long a background response is generated without a reader. */
  readonly backgroundMs: number;
  /** Background responses of one API key that are under way. */
  readonly backgroundMax: number;
}

export const GATEWAY_LIMITS: GatewayLimits = {
  sessionTtlMs: 30 * 60_000,
  conversationMs: 3 * 60 * 60_000,
  // A team behind one API key.
  openStreamsMax: 1_000,
  // Longer than most tools run: a quick tool loop finds its stream open.
  restMs: 5_000,
  parkedBytesMax: 512 * 1024 * 1024,
  graceMs: 60_000,
  // Longer than a server takes to be updated; a model that thinks for no reader costs money.
  patienceMaxMs: 10 * 60_000,
  turnStepsMax: 190,
  idempotencyTtlMs: 24 * 60 * 60_000,
  // As OpenAI keeps them.
  responseTtlMs: 30 * 24 * 60 * 60_000,
  backgroundMs: 60 * 60_000,
  // Each is a model call that no client may be waiting for.
  backgroundMax: 50,
};
