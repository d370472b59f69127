/**
 * One seed of the gateway: clients of two principals ask for some simulated hours, everything goes wrong, then nothing does any more, and
 * each client must get its answer.
 *
 * What runs is production from `Gateway.chat` down: sessions, retries, the client within the process, server, agent, log and tables. The HTTP
 * layer, the database and the provider are the world's.
 */
import { GATEWAY_LIMITS } from "../../../src/gateway/index.ts";
import { fail } from "../log-checks.ts";
import type { SeedResult } from "../scenario.ts";
import { type Random, type Turns, World, WorldFailure } from "../world/index.ts";
import { Account } from "./account.ts";
import { AnswerChecks } from "./answer-checks.ts";
import { FrontDoor } from "./front-door.ts";
import { GatewayNode } from "./gateway-node.ts";
import type { LogEnd } from "./kinds.ts";
import { OpenAiClient } from "./openai-client.ts";
import { isContinuing, Provider } from "./provider.ts";
import { Reference } from "./reference.ts";
import type { Clock, ReferenceLimits } from "./reference-answers.ts";
import { tailOf } from "./reference-rules.ts";
import { isStubborn } from "./stubborn.ts";
import type { Talk } from "./talk.ts";

const MINUTE_MS = 60_000;
const SLOW_MS = 20 * MINUTE_MS;
/** How long a client thinks before it asks again, at most. */
const PACE_MS = 3_000;
const SLOW_PACE_MS = 4 * MINUTE_MS;
const CALM_MS_MAX = 60 * MINUTE_MS;
/** What follows the end of an answer is done by then. */
const TIDIED_MS = 1_000;
const SESSION_TTL_MS = 10 * MINUTE_MS;
/** Within the pause of most clients, within that of slow ones only, or never. */
const REST_MS: readonly number[] = [400, GATEWAY_LIMITS.restMs, Infinity];
/** Longer than an answer is kept without a reader, and a session without its client. */
const SILENCE_MS = SESSION_TTL_MS + MINUTE_MS;
const CALM_STEPS_MAX = 200_000;
/** A session that waits, and that no client asks for, has come to rest by then. */
const RESTED_MS = 10_000;
/** What one that rests holds at the most. */
const RESTING_BYTES = 16 * 1024;

/** Most worlds are as what ships, whose logs are mostly in memory. A log that is longer than that is read from its rows, and more can happen between two reads. */
function logEndOf(random: Random): LogEnd {
  const drawn = random.float();
  if (drawn < 0.7) return "log_kept";
  return drawn < 0.85 ? "log_end_kept" : "from_rows";
}

/** As all worlds were once: a seed that found something then would not find it otherwise. */
export interface AsBefore {
  readonly logEnd?: LogEnd;
  readonly turns?: Turns;
}

/** Rejects with `WorldFailure` when the gateway does what it must not. */
export async function runGatewaySeed(
  seed: number,
  print?: (line: string) => void,
  { turns, logEnd }: AsBefore = {},
): Promise<SeedResult> {
  const world = new World(seed, { print, turns });
  const scenario = new GatewayScenario(world, logEnd ?? logEndOf(world.random.fork("log end")));
  try {
    await scenario.run();
  } catch (cause) {
    throw cause instanceof WorldFailure ? cause : new WorldFailure(world, cause);
  }
  const { steps, nowMs: simulatedMs, traceHash, counters } = world;
  return { steps, simulatedMs, traceHash, hits: counters.toJSON() };
}

class GatewayScenario {
  readonly #world: World;
  readonly #random: Random;
  readonly #node: GatewayNode;
  readonly #provider: Provider;
  readonly #reference: Reference;
  readonly #clients: readonly OpenAiClient[];
  /** Few things happen in a long time, so that the clocks of sessions run out. */
  readonly #isSlow: boolean;
  readonly #canRest: boolean;
  #isCalm = false;

  constructor(world: World, logEnd: LogEnd) {
    this.#world = world;
    this.#random = world.random.fork("gateway scenario");
    const limits = limitsOf(this.#random);
    // Most are quick: another seed shows more than another minute.
    this.#isSlow = this.#random.chance(0.2);
    // In some, models think for longer than clients wait: answers are cut, stopped and given up.
    const isHasty = this.#random.chance(0.35);
    const now = (): Clock => this.#now();
    const life = (): number => this.#node.life;
    const restMs = world.random.fork("rest").pick(REST_MS);
    this.#canRest = restMs < Infinity;
    this.#provider = new Provider(world);
    this.#provider.isThoughtful = isHasty || isStubborn(world.seed);
    this.#provider.isContinuing = isContinuing(world.seed);
    this.#node = new GatewayNode({
      world,
      provider: this.#provider,
      limits: {
        ...GATEWAY_LIMITS,
        ...limits,
        conversationMs: limits.retentionMs,
        parkedBytesMax: 1024 ** 3,
        patienceMaxMs: 600_000,
        restMs,
        turnStepsMax: 190,
      },
      retentionMs: limits.retentionMs,
      logEnd,
    });
    const { streams } = this.#node;
    this.#node.onStreamLost = (streamId) => this.#reference.streamLost(streamId);
    this.#node.onConversationLost = (conversationId) => this.#reference.lost.lose(conversationId);
    const isRefused = (conversationId: string): boolean =>
      this.#provider.calls.some(
        ({ call, fault }) => fault !== undefined && call.conversationId === conversationId,
      );
    this.#reference = new Reference({
      isRefused,
      limits,
      now,
      life,
      streamOf: (streamId) => streams.get(streamId),
    });
    const account = new Account();
    this.#provider.onPart = ({ call }) => this.#watched(() => this.#reference.checkPart(call.conversationId));
    this.#provider.onCall = (call) => this.#watched(() => account.check(call));
    this.#provider.onRepeat = (call) => account.mayRepeat(call);
    this.#provider.onFinish = () => this.#killSoon(0.05, 12);
    const { lost } = this.#reference;
    const checks = new AnswerChecks({ world, provider: this.#provider, streams, now, life, lost });
    const door = new FrontDoor({
      world,
      node: this.#node,
      reference: this.#reference,
      account,
      checks,
      limits,
      canRest: this.#canRest,
      now,
    });
    // Results are on their way from one place on the disk to another: more can go wrong with them, and with words behind them.
    door.onAsk = (asked) => {
      const isResults = asked.body.messages.at(-1)?.role === "tool";
      const hasWords = !isResults && door.isEager && tailOf(asked).results.length > 0;
      this.#killSoon(isResults ? 0.12 : hasWords ? 0.3 : 0.06, 14);
    };
    door.onEnd = () => this.#killSoon(0.06, 3);
    let markers = 0;
    const talks = (): readonly (readonly [string, Talk])[] =>
      this.#clients.flatMap(({ principal, talk }) =>
        talk === undefined ? [] : [[principal, talk] as const],
      );
    const parts = {
      world,
      door,
      checks,
      answerOf: ({ streamId, fromEvent }: { streamId: string; fromEvent: number }) =>
        this.#reference.answers.get(`${streamId} ${fromEvent}`),
      nextMarker: () => ++markers,
      talks,
      paceMs: this.#isSlow ? SLOW_PACE_MS : PACE_MS,
      isHasty,
      hasDoors: world.random.fork("clients of doors").chance(0.3),
      others: (principal: string) => this.#clients.filter((client) => client.principal !== principal),
    };
    this.#clients = ["ada", "ada", "bob"].map(
      (principal, at) => new OpenAiClient(principal, `${principal} ${at}`, parts),
    );
  }

  async run(): Promise<void> {
    const world = this.#world;
    this.#node.boot();
    for (const client of this.#clients) this.#begin(client.live());
    this.#nextFault();
    await world.run({ untilMs: this.#isSlow ? SLOW_MS : 5_000 + this.#random.int(25_000) });
    this.#isCalm = true;
    this.#node.isCalm = true;
    this.#provider.isCalm = true;
    for (const client of this.#clients) client.isCalm = true;
    await this.#settle();
    await world.run({ untilMs: world.nowMs + RESTED_MS });
    this.#checkResting();
    await world.run({ untilMs: world.nowMs + SILENCE_MS - RESTED_MS });
    const open = this.#node.gateway?.sessions ?? [];
    if (open.length > 0) fail("F1", `${open.length} sessions are open, and no client has asked for so long`);
    for (const client of this.#clients) this.#begin(client.comeBack());
    await this.#settle();
    for (const client of this.#clients) this.#begin(client.lastWord());
    await this.#settle();
    await world.run({ untilMs: world.nowMs + TIDIED_MS });
    this.#node.count();
  }

  async #settle(): Promise<void> {
    const { reason } = await this.#world.run({
      untilMs: this.#world.nowMs + CALM_MS_MAX,
      stepsMax: CALM_STEPS_MAX,
      stop: () => this.#clients.every(({ isIdle }) => isIdle),
    });
    if (reason !== "stopped" && !this.#clients.every(({ isIdle }) => isIdle))
      fail("F1", "a client waits for ever, though nothing goes wrong any more");
  }

  /** As the operator sees it: all that wait for hours hold next to nothing. One whose answer has just ended is awake, and so are those of a process that has just started. */
  #checkResting(): void {
    const { gateway } = this.#node;
    if (gateway === undefined || !this.#canRest) return;
    const hasStarted = this.#world.nowMs - this.#node.runsSinceMs < RESTED_MS;
    const isYoung =
      hasStarted || gateway.sessions.some(({ updatedMs }) => this.#now().wallMs - updatedMs < RESTED_MS);
    const [, count = ""] = /sessions{state="parked"} (\d+)/.exec(gateway.metrics()) ?? [];
    const [, bytes = ""] = /parked_bytes (\d+)/.exec(gateway.metrics()) ?? [];
    if (!isYoung && Number(bytes) > Number(count) * RESTING_BYTES)
      fail("rest", `${count} sessions wait, no client has asked for so long, and they hold ${bytes} bytes`);
  }

  #begin(work: Promise<unknown>): void {
    work.catch((cause: unknown) => this.#world.fail(cause));
  }

  #now(): Clock {
    return { wallMs: this.#node.process.env.now(), steadyMs: this.#world.nowMs };
  }

  #watched(check: () => void): void {
    try {
      check();
    } catch (violation) {
      this.#world.fail(violation);
    }
  }

  /** Some requests are the last thing that a process hears, and some answers the last thing that it says. */
  #killSoon(chance: number, effectsMax: number): void {
    if (this.#isCalm || !this.#random.chance(chance)) return;
    this.#node.process.crashAtEffect(1 + this.#random.int(effectsMax));
  }

  #nextFault(): void {
    this.#world.enqueue(this.#random.int(this.#isSlow ? SLOW_MS / 3 : 12_000), () => {
      if (this.#isCalm) return;
      this.#fault();
      this.#nextFault();
    });
  }

  #fault(): void {
    const random = this.#random;
    const { process } = this.#node;
    switch (random.int(6)) {
      case 0:
        process.crash();
        return;
      case 1:
      case 2:
      case 3:
        process.crashAtEffect(1 + random.int(60));
        return;
      case 4:
        if (!random.chance(0.5)) return;
        process.jumpClock(random.pick([30_000, 70_000, 11 * MINUTE_MS, 3 * 60 * MINUTE_MS]));
        for (const session of this.#reference.sessions.values()) session.clockSet(this.#now());
        return;
      default:
        this.#world.hit("gateway.fault.closed");
        this.#begin(this.#node.close());
    }
  }
}

/** Most worlds have room; some are crowded. */
function limitsOf(random: Random): ReferenceLimits {
  const isCrowded = random.chance(0.3);
  return {
    graceMs: 60_000,
    sessionTtlMs: SESSION_TTL_MS,
    idempotencyTtlMs: 60 * MINUTE_MS,
    retentionMs: 30 * MINUTE_MS,
    parkedMax: isCrowded ? 1 + random.int(2) : 1_000,
    openStreamsMax: isCrowded && random.chance(0.5) ? 2 : 1_000,
  };
}
