/**
 * F4: what either side reports of standstills. Each is reported once when it is noticed and once when it is over, within one life
 * of a process; a crash is the only thing that leaves one open.
 */
import { CLOCKS, type StallCounts, type StallNews } from "../../src/core/standstill.ts";
import type { TurnStallNews } from "../../src/server/index.ts";
import { fail } from "./log-checks.ts";
import type { World } from "./world/index.ts";

/** Of one life of a server. */
export class TurnStallChecks {
  readonly #world: World;
  readonly #open = new Set<string>();

  constructor(world: World) {
    this.#world = world;
  }

  heard(news: TurnStallNews): void {
    const { kind, clock, stuck, idempotencyKey } = news;
    const name = `${clock} of ${idempotencyKey}`;
    checkTime(news);
    this.#world.hit(`sometimes.turn.${kind}`);
    this.#world.trace("a server", kind, idempotencyKey, `${clock}: ${stuck}`);
    const wasOpen = this.#open.delete(name);
    if (wasOpen === (kind === "stalled")) fail("F4", `a server reports ${kind} for ${name}`);
    if (kind === "stalled") this.#open.add(name);
  }
}

export function checkTime(news: StallNews): void {
  if (news.kind === "ended") return;
  const ages = news.kind === "stalled" ? news.unanswered.map(({ ageMs }) => ageMs) : [];
  if ([news.stillMs, ...ages].some((ms) => !(ms >= 0))) fail("F4", `a stall of ${news.stillMs} ms`);
}

/** A client reports the end of no more standstills than there were. */
export function checkCounts(counts: StallCounts): void {
  for (const clock of CLOCKS) {
    const { stalled, resumed, now } = counts[clock];
    if (now < 0 || resumed + now > stalled)
      fail("F4", `${clock}: ${stalled} stalls, ${resumed} over, ${now} now`);
  }
}

/** All streams of the client are over. */
export function checkNoneLeft(who: string, counts: StallCounts): void {
  const left = CLOCKS.filter((clock) => counts[clock].now !== 0);
  if (left.length > 0) fail("F4", `${who} has no stream and counts stalls: ${left.join(", ")}`);
}
