/**
 * The sessions whose turn is open, in this process, and how many there may be.
 *
 * Each is an open stream, of which a principal has so many at most. When they are used up, the session that has waited longest for its
 * client makes room; when none waits, the request is refused with a time to come back. A server elsewhere may have a limit of its
 * own: it is learned from its refusal, and answered in the same way.
 *
 * Those that wait for tool results are bounded by what they hold (`parking.ts`). A client whose session ended gets a fresh stream at its next request.
 *
 * Invariant: no more than `openStreamsMax` of a principal are open or being opened, and what waits never exceeds its bounds.
 */
import type { GatewayCounters } from "./counters.ts";
import type { Errands } from "./errands.ts";
import type { SessionLookup } from "./matching.ts";
import type { GatewayLimits } from "./options.ts";
import { crowdedOut, type Parked, parkedBytes } from "./parking.ts";
import { tooManyOpen } from "./refusals.ts";
import type { Session } from "./session.ts";
import type { SessionRecord } from "./session-record.ts";

export interface LiveSessionsOptions {
  /** Those whose turn is over. */
  readonly store: SessionLookup;
  readonly limits: Pick<GatewayLimits, "openStreamsMax" | "parkedBytesMax">;
  readonly counters: GatewayCounters;
  readonly errands: Errands;
}

interface ParkedSession extends Parked {
  readonly session: Session;
}

export class LiveSessions implements SessionLookup {
  readonly #options: LiveSessionsOptions;
  readonly #byStream = new Map<string, Session>();
  /** Streams that are about to be opened, by principal. */
  readonly #reserved = new Map<string, number>();
  /** Those that the server had no room for. They go as soon as it lets them in. */
  readonly #unwelcome = new Set<Session>();

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

  remove(session: Session): void {
    this.#byStream.delete(session.record.answer.streamId);
    this.#unwelcome.delete(session);
  }

  /**
   * Room for one more stream of the principal. Throws when there is none. What it returns is called when the session is
   * added, or will not be.
   */
  reserve(principal: string): () => void {
    const { openStreamsMax } = this.#options.limits;
    for (const session of this.#unwelcome) {
      if (session.record.principal !== principal) continue;
      // It may have room by now: then the next one is let in.
      session.turn.stream.wake();
      throw tooManyOpen();
    }
    const own = this.all.filter(({ record, isEnding }) => record.principal === principal && !isEnding);
    const reserved = this.#reserved.get(principal) ?? 0;
    if (own.length + reserved >= openStreamsMax && !this.#evictOne(principal)) throw tooManyOpen();
    this.#reserved.set(principal, reserved + 1);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      const left = (this.#reserved.get(principal) ?? 1) - 1;
      if (left === 0) this.#reserved.delete(principal);
      else this.#reserved.set(principal, left);
    };
  }

  /** When the server has no room for a new stream of the principal, a session that waits makes it, or the new one is refused. */
  admit(session: Session): void {
    const stop = session.turn.stream.watch(({ durability, trouble }) => {
      const isWelcome = durability !== undefined;
      if (isWelcome) stop();
      else if (trouble?.code === "overloaded") this.#options.errands.run(this.#makeRoomFor(session));
    });
  }

  async #makeRoomFor(session: Session): Promise<void> {
    if (session.isEnding) return;
    const evicted = this.#evictOne(session.record.principal);
    if (evicted === undefined) {
      this.#unwelcome.add(session);
      session.turn.fail(tooManyOpen());
      await session.stop();
      return;
    }
    await evicted.turn.stream.ended;
    session.turn.stream.wake();
  }

  /** The one of the principal's that has waited longest; undefined when none waits. */
  #evictOne(principal: string): Session | undefined {
    const [oldest] = this.#waiting
      .filter((one) => one.principal === principal && one.canGo)
      .toSorted((a, b) => a.sinceMs - b.sinceMs);
    if (oldest !== undefined) this.giveUp(oldest.session, "evicted");
    return oldest?.session;
  }

  get #waiting(): readonly ParkedSession[] {
    return this.all
      .filter((session) => session.isWaiting)
      .map((session) => {
        const { principal, updatedMs: sinceMs, historyBytes } = session.record;
        return { session, principal, sinceMs, bytes: parkedBytes(historyBytes), canGo: !session.isBusy };
      });
  }

  /** Those that wait for tool results, and what they hold. */
  get parked(): { readonly count: number; readonly bytes: number } {
    const waiting = this.#waiting;
    return { count: waiting.length, bytes: waiting.reduce((sum, { bytes }) => sum + bytes, 0) };
  }

  /** Before it begins to wait: those that there is no room for any more end. Without one: after a start. */
  makeRoom(newcomer?: Session): void {
    const next = newcomer?.record;
    const about =
      next === undefined
        ? undefined
        : {
            principal: next.principal,
            bytes: parkedBytes(next.historyBytes),
            countMax: next.parkedMax,
          };
    const crowd = crowdedOut(this.#waiting, about, this.#options.limits.parkedBytesMax);
    for (const { session } of crowd) this.giveUp(session, "evicted");
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

  giveUp(session: Session, why: "evicted" | "expired" | "abandoned"): void {
    this.#options.counters[why]++;
    this.#options.errands.run(session.stop());
  }
}
