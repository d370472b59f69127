/**
 * What the gateway's HTTP stands on: a port that the server keeps.
 *
 * The gateway cannot name the server (it must not go around durability), so it says here what it needs of the port's owner; the server's
 * mount has the same shape, and the program that starts both hands one to the other.
 */
import type { Exchange } from "../../transport/node/exchange.ts";

/** What one API key may; an absent limit limits nothing. */
export interface Limits {
  /** Names of models; `*` stands for any characters. */
  readonly models?: readonly string[];
  readonly ratePerMinute?: number;
  readonly concurrency?: number;
  readonly parked?: number;
  readonly tokensPerDay?: number;
}

export interface Guest {
  readonly principal: string;
  readonly apiKeyId: string;
  readonly limits: Limits | undefined;
}

export interface MountedCall {
  readonly exchange: Exchange;
  /** Is on the answer already, as `x-request-id`. */
  readonly requestId: string;
  /** Rejects with `unauthenticated` or `overloaded`. */
  readonly signIn: () => Promise<Guest>;
  readonly isStopped: () => boolean;
  /** For the log. Nothing of it may be of the client's choosing. */
  readonly tell: (news: {
    readonly route?: string;
    readonly streamId?: string;
    readonly answer?: string;
    readonly error?: string;
  }) => void;
  readonly onBug: (bug: unknown) => void;
}

export interface GatewayMount {
  readonly prefix: string;
  handle(call: MountedCall): void;
  refuse(call: MountedCall, refusal: { readonly status: number; readonly message: string }): void;
  /** Members of the 404 that clients with a wrong base URL get. */
  strayed(baseUrl: string): Readonly<Record<string, unknown>>;
  close(): void;
}
