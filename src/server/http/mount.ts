/**
 * A part of the port's paths that another component answers: the gateway.
 *
 * The edge keeps what every request has in common (Host and Origin, headers, counters, the log, sign-in), and the mount answers in a shape of
 * its own, refusals included. This folder knows nothing of what is mounted; the program that starts both puts them together.
 */
import { hexOf } from "../../protocol/bytes.ts";
import { pooledRandomBytes } from "../../sealing/node-crypto.ts";
import type { Exchange } from "../../transport/node/exchange.ts";
import type { ApiKeyLimits } from "../api-key-limits.ts";

/** Whom the API key of a request stands for, and what it may. */
export interface MountedGuest {
  readonly principal: string;
  /** What is counted by API key is counted by this. */
  readonly apiKeyId: string;
  readonly limits: ApiKeyLimits | undefined;
}

/** What the log's line of a request says beside what the edge knows. Nothing of it may be of the client's choosing (E4). */
export interface MountedNews {
  readonly route?: string;
  /** Logged as its hash. */
  readonly streamId?: string;
  /** What the model did for it. */
  readonly answer?: string;
  readonly error?: string;
}

/** One request. */
export interface MountedCall {
  readonly exchange: Exchange;
  /** What `x-request-id`, and `request-id` for Anthropic's clients, say on the answer, and `requestId` in the log. */
  readonly requestId: string;
  /** By `authorization: Bearer`, `x-api-key` or `api-key`, whichever is good first. Rejects with `unauthenticated`, or with `overloaded` after too many failures. */
  readonly signIn: () => Promise<MountedGuest>;
  /** From then on nothing new begins. */
  readonly isStopped: () => boolean;
  readonly tell: (news: MountedNews) => void;
  readonly onBug: (bug: unknown) => void;
}

export interface Mount {
  /** Of the paths: "/v1/". */
  readonly prefix: string;
  /** Must not throw, and listens to the exchange in any case: the request is over when the exchange says so. */
  handle(call: MountedCall): void;
  /** What the edge refuses before anything is looked at, said in the mount's shape. */
  refuse(call: MountedCall, refusal: { readonly status: number; readonly message: string }): void;
  /** What a 404 of the port says to the mount's clients, which may have been given a wrong base URL. */
  strayed(baseUrl: string): Readonly<Record<string, unknown>>;
  /** The server is shutting down: the mount tells clients with an open answer to retry. */
  close(): void;
}

export function mountOf(mounts: readonly Mount[], path: string): Mount | undefined {
  return mounts.find(({ prefix }) => path.startsWith(prefix));
}

/** What cannot be mistaken for anything else in a log or a header. */
const SANE_ID = /^[\w.:-]{1,128}$/;

/** The client's own, so that it finds its request again, if it is one; else a new one. */
export function requestIdOf(exchange: Exchange): string {
  const given = exchange.header("x-request-id");
  return given !== undefined && SANE_ID.test(given) ? given : `req_${hexOf(pooledRandomBytes(16))}`;
}
