/**
 * What the drivers of sessions share: the parts of the gateway that they carry effects out with, and whom they tell.
 */
import type { KeyedQueue } from "../async/keyed-queue.ts";
import type { TableWrite } from "../store/table-store.ts";
import type { Environment } from "../transport/environment.ts";
import type { BackgroundTasks } from "./background-tasks.ts";
import type { GatewayCounters } from "./counters.ts";
import type { GivenAnswers } from "./given-answers.ts";
import type { KeptResponses } from "./kept-responses.ts";
import type { Names } from "./names.ts";
import type { GatewayLimits, GatewayOptions } from "./options.ts";
import type { SessionDriver } from "./session-driver.ts";
import type { SessionStore } from "./session-store.ts";
import type { SleepingParts } from "./sleeping-log.ts";

export interface SessionContext
  extends Pick<GatewayOptions, "clientOf" | "workspace" | "onBug">, Omit<SleepingParts, "clientOf"> {
  readonly store: SessionStore;
  readonly given: Pick<GivenAnswers, "forget">;
  readonly kept: Pick<KeptResponses, "ended">;
  readonly names: Names;
  readonly limits: Pick<GatewayLimits, "graceMs" | "sessionTtlMs" | "conversationMs" | "restMs">;
  readonly environment: Environment;
  readonly counters: GatewayCounters;
  readonly tasks: BackgroundTasks;
  /** A session's writes, one after the other. */
  readonly writes: KeyedQueue;
  /** The session is about to wait for tool results. */
  readonly onParking: (session: SessionDriver, isBack?: boolean) => void;
  /** The server does not have all of its conversation: what still names it leads to nothing but the same failure. */
  readonly onUnreadable: (session: SessionDriver) => void;
  readonly onGone: (session: SessionDriver) => void;
  /** Another node has taken the session. */
  readonly onMoved: (session: SessionDriver) => void;
  readonly isReadElsewhere: ((session: SessionDriver) => Promise<boolean>) | undefined;
}

/** What an input brings besides. */
export interface Continuation {
  readonly bodies: readonly Uint8Array[];
  readonly writes: readonly TableWrite[];
}
