/**
 * An answer as the reference knows it: what may have become of its responses, and so which equal request is a retry of it.
 *
 * What a killed process had written down is not always known. So a state is a set of possible ones, mostly of one, and a decision is made
 * in each possible world.
 */
import type { Delivery, RetrySign } from "../../../src/gateway/delivery.ts";
import type { Arrival } from "./exchange.ts";
import type { SimBody, SimCall } from "./messages.ts";

/** A request as the reference knows it. */
export interface Asked {
  readonly principal: string;
  readonly body: SimBody;
  readonly hash: string;
  readonly key: string | undefined;
  readonly retrySign: RetrySign;
}

/** An answer that a client was given with its finish. */
export interface Whole {
  readonly text: string;
  readonly calls: readonly SimCall[];
  readonly finish: string;
}

export interface Clock {
  /** The machine's clock, which may jump. */
  readonly wallMs: number;
  /** The world's. */
  readonly steadyMs: number;
}

export interface ReferenceLimits {
  readonly graceMs: number;
  readonly sessionTtlMs: number;
  readonly idempotencyTtlMs: number;
  readonly retentionMs: number;
  readonly parkedMax: number;
  readonly openStreamsMax: number;
}

/** Around a deadline both sides of it are possible: timers, disks and requests take a moment. */
export const SLACK_MS = 3_000;
/** A write that is older than this is on the disk. */
export const WRITTEN_MS = 1_000;

/** How one answer may look to an equal request. `none`: it is not to be had again. */
export interface Possible {
  readonly delivery: Delivery | "asked" | "none";
  readonly isRetried: boolean;
}

interface Row {
  readonly delivery: Delivery | "none";
  readonly expiresMs: number;
  readonly writtenMs: number;
  /** How far the machine's clock was ahead of the world's. */
  readonly aheadMs: number;
}

export interface RefTelling {
  delivery: Delivery;
}

/** The best news counts; while a response is open, nothing is decided. */
const BEST_FIRST = ["open", "confirmed", "closed", "flushed", "lost"] as const;

export class RefAnswer {
  readonly asked: Asked;
  readonly streamId: string;
  readonly fromEvent: number;
  readonly begunMs: number;
  readonly life: number;
  /** Its rows went with its session. */
  removed: "no" | "maybe" | "yes" = "no";
  /** The row of its key may be there still, and gives no answer any more. */
  mayHaveRows = false;
  whole: Whole | undefined;
  /** Its turn came to no good end. */
  hasFailed = false;
  readonly #limits: ReferenceLimits;
  /** What may be on the disk, the oldest first; all but the first may be missing. */
  #rows: readonly Row[];
  /** Of earlier lives. */
  #before: readonly Row[] | undefined;
  #tellings = new Set<RefTelling>();
  #isRetried = false;
  #mayBeRetried = false;
  #mayBeForgotten = false;
  #isDropped = false;
  #settledMs = Infinity;
  /** A request that took it may have come to nothing. */
  #mayBeLostUntilMs = 0;

  constructor(
    asked: Asked,
    at: { readonly streamId: string; readonly fromEvent: number; readonly life: number },
    limits: ReferenceLimits,
    now: Clock,
  ) {
    this.asked = asked;
    this.streamId = at.streamId;
    this.fromEvent = at.fromEvent;
    this.life = at.life;
    this.begunMs = now.wallMs;
    this.#limits = limits;
    this.#rows = [this.#row("open", limits.sessionTtlMs, now)];
  }

  get id(): string {
    return `${this.streamId.slice(-8)}/${this.fromEvent}`;
  }

  /** It answers tool results, in the turn that waited for them. */
  get isContinued(): boolean {
    return this.fromEvent > 0;
  }

  /** It is gone, but the row of its key may be there, and refuses another body. */
  mayRefuse({ hash }: Asked): boolean {
    return this.mayHaveRows && hash !== this.asked.hash;
  }

  get isOpen(): boolean {
    return this.#together() === "open";
  }

  /** A response is written. */
  tell(now: Clock): RefTelling {
    // Past its time it is forgotten, whichever client still reads it.
    const deliveries = new Set(this.#deliveries(now.wallMs));
    this.#mayBeForgotten ||= deliveries.has("none");
    this.#isDropped ||= deliveries.has("none") && deliveries.size === 1;
    const telling: RefTelling = { delivery: "open" };
    if (!this.#isDropped) this.#tellings.add(telling);
    this.#settledMs = Infinity;
    return telling;
  }

  /** A retry has got it: what became of earlier responses does not matter any more. */
  take(now: Clock): void {
    this.#isRetried = true;
    this.#mayBeForgotten = false;
    this.#before = undefined;
    this.#tellings = new Set();
    this.#rows = [this.#row("open", this.#limits.sessionTtlMs, now)];
  }

  learn(telling: RefTelling, news: "whole" | "broken" | Arrival, now: Clock): void {
    if (telling.delivery === "open") telling.delivery = news === "whole" ? "flushed" : "lost";
    else if (telling.delivery === "flushed" && news !== "whole" && news !== "broken") telling.delivery = news;
    if (!this.#tellings.has(telling)) return;
    // Its time counts from its last byte, by the machine's clock: what is heard of it later makes it no answer that can be had again.
    this.#mayBeForgotten ||= now.wallMs >= this.#settledMs - SLACK_MS;
    this.#isDropped ||= now.wallMs >= this.#settledMs + SLACK_MS;
    if (this.#isDropped) return;
    const delivery = this.#together();
    const isSettled = this.#settledMs < Infinity;
    if (delivery === "flushed" || delivery === "lost" || (delivery === "closed" && !isSettled)) {
      this.#settledMs = now.wallMs + this.#limits.graceMs;
      this.#rows = [...this.#rows, this.#row(delivery, this.#limits.graceMs, now)];
    }
    if (delivery === "confirmed") {
      this.#isDropped = true;
      // The row goes with some later write, or with its time.
      this.#rows = [...this.#rows, { delivery: "none", expiresMs: 0, writtenMs: Infinity, aheadMs: 0 }];
    }
  }

  /** A retry that may have taken it came to nothing. */
  mayBeLost({ wallMs }: Clock): void {
    this.#mayBeRetried = true;
    this.#mayBeLostUntilMs = wallMs + this.#limits.graceMs;
  }

  /** A process that died may have given it to a retry. */
  doubtRetried(): void {
    this.#mayBeRetried = true;
  }

  /** The process is dead. `isAsked`: a retry was on its way, and may have been written down. */
  killed(now: Clock, isAsked: boolean): void {
    const sure = this.#rows.findLastIndex(({ writtenMs }) => writtenMs + WRITTEN_MS < now.steadyMs);
    const kept = this.#rows.slice(Math.max(0, sure));
    if (isAsked) this.#mayBeRetried = true;
    const more = isAsked ? [this.#row("open", this.#limits.sessionTtlMs, now)] : [];
    // Whether these are on the disk, nothing tells later either.
    const doubtful = [...kept.slice(1), ...more].map(({ delivery, expiresMs, aheadMs }): Row => ({
      delivery,
      expiresMs,
      writtenMs: Infinity,
      aheadMs,
    }));
    this.#rows = [...kept.slice(0, 1), ...doubtful];
    // The database counts from when it writes a row: a clock that jumped meanwhile gave it more time.
    const aheadMs = now.wallMs - now.steadyMs;
    const late = this.#rows.map((row) => ({ ...row, expiresMs: row.expiresMs + aheadMs - row.aheadMs }));
    this.#before = [
      ...this.#rows,
      ...late.filter((row, at) => row.expiresMs > (this.#rows[at]?.expiresMs ?? 0)),
    ];
    this.#tellings = new Set();
    this.#isDropped = false;
    this.#settledMs = Infinity;
  }

  possible(nowMs: number, mayBeRemoved: boolean): readonly Possible[] {
    if (this.removed === "yes" || this.#isDropped) return [{ delivery: "none", isRetried: false }];
    const deliveries = new Set(this.#deliveries(nowMs));
    if (this.removed === "maybe" || mayBeRemoved) deliveries.add("none");
    const retried = this.#mayBeRetried && !this.#isRetried ? [true, false] : [this.#isRetried];
    return [...deliveries].flatMap((delivery) => retried.map((isRetried) => ({ delivery, isRetried })));
  }

  *#deliveries(nowMs: number): Generator<Possible["delivery"]> {
    const lostUntilMs = this.#mayBeLostUntilMs;
    if (lostUntilMs > 0 && nowMs < lostUntilMs + SLACK_MS) yield "lost";
    if (lostUntilMs > 0 && nowMs >= lostUntilMs - SLACK_MS) yield "none";
    if (this.#mayBeForgotten) yield "none";
    const delivery = this.#together();
    if (delivery !== undefined) {
      if (nowMs < this.#settledMs + SLACK_MS) yield delivery;
      if (nowMs >= this.#settledMs - SLACK_MS) yield "none";
      return;
    }
    if (this.#before === undefined) yield "asked";
    for (const row of this.#before ?? []) {
      if (nowMs < row.expiresMs + SLACK_MS) yield afterRestart(row.delivery);
      if (nowMs >= row.expiresMs - SLACK_MS) yield "none";
    }
  }

  #together(): Delivery | undefined {
    const deliveries = new Set([...this.#tellings].map(({ delivery }) => delivery));
    return BEST_FIRST.find((delivery) => deliveries.has(delivery));
  }

  #row(delivery: Row["delivery"], ttlMs: number, { wallMs, steadyMs }: Clock): Row {
    return { delivery, expiresMs: wallMs + ttlMs, writtenMs: steadyMs, aheadMs: wallMs - steadyMs };
  }
}

/** No response is open then, and no connection says more. */
function afterRestart(delivery: Row["delivery"]): Possible["delivery"] {
  if (delivery === "open") return "lost";
  return delivery === "flushed" ? "closed" : delivery;
}
