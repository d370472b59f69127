/**
 * What a call of a model at its provider is given, and whom it tells what happened.
 */
import type { Dialect } from "../dialect.ts";
import type { Fetch } from "../providers.ts";
import type { BreakReport } from "./provider-break.ts";
import type { StallClocks } from "./stall-clocks.ts";
import type { Time } from "./time.ts";

/** What is known of a provider; learned by its calls. */
export interface ProviderSeen {
  pings: boolean;
  /** Whether it takes runs that live on without a connection; undefined until it was asked. */
  takesBackground?: boolean;
}

export interface UpstreamOptions {
  readonly dialect: Dialect;
  readonly fetch: Fetch;
  readonly clocks: StallClocks;
  readonly provider: ProviderSeen;
  /** Whether answers may be stored by the provider, so that they can be read on. */
  readonly resume?: boolean;
  /** The requests of this call live on when this process lets go of them. */
  readonly isHeld?: boolean;
  /** The caller reads events by `next`: `fetch` throws `TAKEN` in the place of an answer. */
  readonly isReadByEvents?: boolean;
  readonly backoffMs?: number;
  /** Before each request, which leaves when this resolves. */
  readonly onRequest: () => Promise<void>;
  readonly watch: UpstreamWatch;
  /** Default: the process's own. */
  readonly time?: Time | undefined;
}

/** For what is counted. */
export interface UpstreamWatch {
  readonly onBreak?: (report: BreakReport) => void;
  /** The same generation was read on, and brought content so long after the break. */
  readonly onResumed?: (silentMs: number) => void;
  /** The answer is whole, although it broke. */
  readonly onSaved?: () => void;
  /** A run may have been left at the provider. */
  readonly onLeft?: () => void;
}
