/**
 * The sessions whose turn is open, in this process, and how many of them may wait.
 *
 * Each is an open stream. Those that wait for tool results cost no tokens, so there may be many; when there are too many, the
 * one that has waited longest makes room. Its client is not told: it gets a fresh stream when it comes back.
 */
import type { GatewayCounters } from "./counters.ts";
import type { Errands } from "./errands.ts";
import type { SessionLookup } from "./matching.ts";
import type { GatewayLimits } from "./options.ts";
import type { Session } from "./session.ts";
import type { SessionRecord } from "./session-record.ts";

export interface LiveSessionsOptions {
  /** Those whose turn is over. */
  readonly store: SessionLookup;
  readonly limits: Pick<GatewayLimits, "parkedMax" | "parkedPerPrincipalMax">;
  readonly counters: GatewayCounters;
  readonly errands: Errands;
}

export class LiveSessions implements SessionLookup {
  readonly #options: LiveSessionsOptions;
  readonly #byStream = new Map<string, Session>();

  constructor(options: LiveSessionsOptions) {
    this.#options = options;
  }

  get all(): readonly Session[] {
    return [...this.#byStream.values()];
  }

  get(streamId: string): Session | undefined {
    return this.#byStream.get(streamId);
  }

  add(session: Session): void {
    this.#byStream.set(session.record.answer.streamId, session);
  }

  /** When the server has no room for a new stream of the principal, a session that waits makes it. One that is resumed has its room. */
  admit(session: Session): void {
    const stop = session.turn.stream.watch(({ durability, trouble }) => {
      const isWelcome = durability !== undefined;
      if (isWelcome) stop();
      else if (trouble?.code === "overloaded") this.#options.errands.run(this.#evictFor(session));
    });
  }

  async #evictFor({ record, turn }: Session): Promise<void> {
    const oldest = longestWaiting(
      this.#waiting.filter((other) => other.record.principal === record.principal),
    );
    if (oldest === undefined) return;
    this.giveUp(oldest, "evicted");
    await oldest.turn.stream.ended;
    turn.stream.wake();
  }

  get #waiting(): readonly Session[] {
    return this.all.filter((session) => session.isWaiting && !session.isBusy);
  }

  remove({ record }: Session): void {
    this.#byStream.delete(record.answer.streamId);
  }

  /** Whatever waits for results is here: the disk is asked only about what does not. */
  async byTool(principal: string, toolId: string): Promise<SessionRecord | undefined> {
    for (const session of this.#byStream.values()) {
      if (session.record.principal === principal && session.waitsFor(toolId)) return session.record;
    }
    return this.#options.store.byTool(principal, toolId);
  }

  byLineage(
    principal: string,
    model: string,
    context: string,
    head: string,
  ): Promise<SessionRecord | undefined> {
    return this.#options.store.byLineage(principal, model, context, head);
  }

  /** Too many wait: the one that has waited longest ends. */
  makeRoom(parked: Session): void {
    const { parkedMax, parkedPerPrincipalMax: perPrincipal } = this.#options.limits;
    const parkedPerPrincipalMax = Math.min(perPrincipal, parked.record.parkedMax ?? perPrincipal);
    const waiting = this.#waiting;
    const own = waiting.filter(({ record }) => record.principal === parked.record.principal);
    const crowd = own.length > parkedPerPrincipalMax ? own : waiting.length > parkedMax ? waiting : [];
    const oldest = longestWaiting(crowd);
    if (oldest !== undefined && oldest !== parked) this.giveUp(oldest, "evicted");
  }

  giveUp(session: Session, why: "evicted" | "expired" | "abandoned"): void {
    this.#options.counters[why]++;
    this.#options.errands.run(session.stop());
  }
}

function longestWaiting(sessions: readonly Session[]): Session | undefined {
  return sessions.toSorted((a, b) => a.record.updatedMs - b.record.updatedMs)[0];
}
