/**
 * The sessions that a start finds open.
 *
 * One that waits for tool results costs nothing: the start resumes it, and it waits on. One that was being answered was cut off: its step
 * would have to be generated again, and its client may be gone. So it sleeps until a retry or `/events` asks for it. When neither comes
 * within the grace period, its turn is aborted, and its rows and its journal go.
 *
 * Invariant: after a start no model is called for an answer that no client has asked for since (G7).
 */
import type { ClientStream } from "../client/index.ts";
import { HoldfastError } from "../protocol/errors.ts";
import type { GatewayCounters } from "./counters.ts";
import type { Errands } from "./errands.ts";
import type { GivenAnswers } from "./given-answers.ts";
import type { LiveSessions } from "./live-sessions.ts";
import type { GatewayOptions } from "./options.ts";
import { Session, type SessionContext } from "./session.ts";
import type { SessionRecord } from "./session-record.ts";
import type { SessionStore } from "./session-store.ts";

export interface FoundSessionsParts {
  readonly store: SessionStore;
  readonly given: GivenAnswers;
  readonly live: LiveSessions;
  readonly clientOf: GatewayOptions["clientOf"];
  readonly context: SessionContext;
  readonly counters: GatewayCounters;
  readonly errands: Errands;
}

interface Sleeper {
  readonly record: SessionRecord;
  readonly cancelTimer: () => void;
  /** It is on its way to the sessions that run. */
  taken: Promise<void> | undefined;
}

export class FoundSessions {
  readonly #parts: FoundSessionsParts;
  readonly #sleeping = new Map<string, Sleeper>();
  /** By which turns are being aborted. */
  readonly #aborting = new Set<ClientStream>();
  #isClosed = false;

  constructor(parts: FoundSessionsParts) {
    this.#parts = parts;
  }

  async start(): Promise<void> {
    for (const record of await this.#parts.store.list()) {
      if (record.state === "parked") await this.#resume(record);
      if (record.state === "generating") this.#sleep(record);
    }
  }

  /** A client asks for what this stream says: when it sleeps, it runs from here on. */
  async takeUp(principal: string, streamId: string): Promise<void> {
    const sleeper = this.#sleeping.get(streamId);
    if (sleeper === undefined || sleeper.record.principal !== principal) return;
    sleeper.cancelTimer();
    sleeper.taken ??= this.#resume(sleeper.record).finally(() => this.#sleeping.delete(streamId));
    await sleeper.taken;
  }

  /** The user's wish, for a stream that does not run here. Rejects when this principal has none of that name. */
  async stop(principal: string, streamId: string): Promise<void> {
    const sleeper = this.#sleeping.get(streamId);
    if (sleeper?.record.principal === principal && sleeper.taken === undefined) return this.#end(sleeper);
    const { failure } = (await this.#abort(principal, streamId)).status;
    if (failure !== undefined && failure.code !== "stream_ended")
      throw new HoldfastError(failure.code, failure.message);
  }

  /** Lets go of everything; the next start finds it again. */
  close(): void {
    this.#isClosed = true;
    for (const { cancelTimer } of this.#sleeping.values()) cancelTimer();
    for (const reader of this.#aborting) reader.leave();
  }

  #sleep(record: SessionRecord): void {
    const { context, counters, errands } = this.#parts;
    const giveUp = (): void => {
      counters.abandoned++;
      errands.run(this.#end(sleeper));
    };
    const cancelTimer = context.environment.after(context.graceMs, giveUp);
    const sleeper: Sleeper = { record, cancelTimer, taken: undefined };
    this.#sleeping.set(record.answer.streamId, sleeper);
  }

  /** Aborted first, and then read: how it ended is what removes its rows and its journal, as with every session. */
  async #end({ record, cancelTimer }: Sleeper): Promise<void> {
    const { given } = this.#parts;
    const { streamId } = record.answer;
    cancelTimer();
    this.#sleeping.delete(streamId);
    given.forget(record.responses);
    const reader = await this.#abort(record.principal, streamId);
    const isLeft = (await reader.ended) === undefined && reader.status.failure === undefined;
    if (!isLeft) await this.#resume(record);
  }

  async #abort(principal: string, streamId: string): Promise<ClientStream> {
    const reader = await this.#parts.clientOf(principal).client.abort(streamId);
    this.#aborting.add(reader);
    if (this.#isClosed) reader.leave();
    await reader.ended;
    this.#aborting.delete(reader);
    return reader;
  }

  async #resume(record: SessionRecord): Promise<void> {
    const { clientOf, context, live, store } = this.#parts;
    const { client, blobs } = clientOf(record.principal);
    try {
      const stream = await client.resume(record.answer.streamId);
      live.add(new Session(context, record, { stream, blobs, isResumed: true }));
    } catch (cause) {
      // It is over, or gone: a retry is answered from its log, if there is one, and all else by a fresh stream.
      if (!(cause instanceof HoldfastError)) context.onBug(cause);
      await store.remove(record, { withResponses: false });
    }
  }
}
