/**
 * The production PostgreSQL store of one simulated node: its streams, its group writer, its plan, verdicts and fates are those that ship. Only what is SQL there is a call to the simulated
 * database here, over a network that loses requests and answers, delivers a group when its connection is long over, and to a server that undoes groups, refuses an act, or commits
 * with a warning.
 */
import { assert } from "../../src/protocol/assert.ts";
import { HoldfastError } from "../../src/protocol/errors.ts";
import type { Act, StreamPlace } from "../../src/store/postgres/acts.ts";
import { newsOf, payloadOf } from "../../src/store/postgres/bell-payload.ts";
import { unavailable } from "../../src/store/postgres/failures.ts";
import type { Carried, Found, GroupCarrier } from "../../src/store/postgres/group-carrier.ts";
import { fateOf, type Receipt } from "../../src/store/postgres/group-fate.ts";
import type { Row, Statement } from "../../src/store/postgres/driver.ts";
import { GroupWriter } from "../../src/store/postgres/group-writer.ts";
import { writesIn } from "../../src/store/postgres/group-statements.ts";
import { chainsOf } from "../../src/store/postgres/plan.ts";
import { postgresStreams } from "../../src/store/postgres/postgres-streams.ts";
import type { StoreParts, StreamQuestions } from "../../src/store/postgres/stream-questions.ts";
import type { ReadBack } from "../../src/store/postgres/verdicts.ts";
import type { StreamName } from "../../src/core/stream-state.ts";
import type { LogBatches, LogName, StreamStore } from "../../src/store/stream-store.ts";
import type { StoreFaults } from "./flaky-store.ts";
import { ConnectionLost, SqlFailure, type SimPostgres } from "./sim-postgres.ts";
import type { Random, SimProcess, World } from "./world/index.ts";

export interface DrivenContext {
  readonly world: World;
  readonly random: Random;
  readonly faults: StoreFaults;
  /** The node. */
  readonly process: SimProcess;
  /** The database, as long as it is there, and the log that it reads. */
  readonly target: () =>
    | { readonly process: SimProcess; readonly postgres: SimPostgres; readonly store: StreamStore }
    | undefined;
  /** Wakes the other nodes. */
  readonly ring: (payload: string) => void;
  /** Sends a request, and may die at it. Without it sending is no place to die. */
  readonly send?: (request: () => void) => void;
  /** Before what was lost is asked again. Default: 400. */
  readonly pauseMs?: number;
}

/** Where a stream's row is that the node has met. */
export type PlaceOf = (name: StreamName) => StreamPlace | undefined;

type Page = readonly [name: StreamName, from: number, bytesMax: number];
type Target = NonNullable<ReturnType<DrivenContext["target"]>>;

export interface DrivenStore {
  readonly streams: StreamStore;
  readonly placeOf: PlaceOf;
  /** What tables and blobs are made of. */
  readonly parts: StoreParts;
  readonly failed: Promise<Error>;
  close(): Promise<void>;
}

/** What a campaign must have met. */
export const DRIVEN_KINDS = ["late", "left_out", "read_back", "undone", "unknown"].map(
  (kind) => `driver.${kind}`,
);

const PATIENCE_MS = 5_000;
const PAUSE_MS = 400;
/** How late a group may come whose connection was given up. */
const LATE_MS_MAX = 20_000;

/** Rejects when the database cannot be reached. */
export async function openDrivenStore(context: DrivenContext): Promise<DrivenStore> {
  const carrier = new SimCarrier(context);
  await carrier.settle(undefined);
  const onDurable = (acts: readonly Act[]): void => {
    const news = newsOf(acts);
    if (news.length > 0) context.ring(payloadOf(new Set(news)));
  };
  const writer = new GroupWriter(carrier, { onDurable });
  const close = (): Promise<void> => writer.close();
  const { streams, placeOf } = postgresStreams({
    writer,
    questions: questionsTo(context),
    durability: "fsync",
    close,
  });
  const readers = { ask: (statement: Statement) => askedUntilAnswered(context, statement) };
  const parts = { writer, readers, durability: "fsync", close } as const;
  return { streams, placeOf, parts, failed: writer.failed, close };
}

class SimCarrier implements GroupCarrier {
  readonly #context: DrivenContext;
  #store: number | undefined;
  #term = 0;
  #rowVersion = 0;

  constructor(context: DrivenContext) {
    this.#context = context;
  }

  async carry(groupNumber: number, acts: readonly Act[]): Promise<Carried> {
    const { world, random, faults } = this.#context;
    const sender = { store: this.#store ?? 0, term: this.#term, groupNumber };
    const send = ({ postgres }: Target): Promise<Found> => {
      const code = random.chance(faults.undone)
        ? "40P01"
        : random.chance(faults.refused)
          ? "23514"
          : undefined;
      if (code === undefined) return postgres.carryOut(sender, acts);
      world.hit("driver.undone");
      throw new SqlFailure(code);
    };
    const hasWarning = random.chance(faults.warned);
    const got: { found?: Found } = {};
    const committed = async () => {
      got.found = await (random.chance(faults.late) ? this.#late(send) : asked(this.#context, send));
      return { command: "COMMIT", rows: [] };
    };
    const fate = fateOf(await Promise.allSettled([committed()]), hasWarning);
    if (fate.kind !== "committed") return fate;
    const { found } = got;
    assert(found !== undefined, "what is committed has found something");
    if (found.applied.commit.size < found.chains.size) world.hit("driver.left_out");
    return { kind: "committed", found };
  }

  async settle(cause: unknown): Promise<Receipt> {
    const { process, pauseMs = PAUSE_MS } = this.#context;
    if (cause !== undefined) this.#context.world.hit("driver.unknown");
    const untilMs = process.env.monotonic() + PATIENCE_MS;
    for (;;) {
      try {
        const receipt = await asked(this.#context, ({ postgres }) => {
          this.#store ??= postgres.newStore();
          return postgres.raiseTerm(this.#store);
        });
        this.#term = receipt.term;
        this.#rowVersion = receipt.rowVersion;
        return receipt;
      } catch (error) {
        if (process.env.monotonic() > untilMs) throw unavailable("the database stays away", error);
      }
      await new Promise<void>((resolve) => process.env.after(pauseMs, resolve));
    }
  }

  async readBack(acts: readonly Act[]): Promise<ReadBack> {
    this.#context.world.hit("driver.read_back");
    const names = acts.flatMap((act) => ("name" in act ? [act.name] : []));
    const { nowMs, found } = await asked(this.#context, ({ postgres }) => postgres.lookUp(names));
    const chains = new Map(chainsOf(acts).map((chain) => [chain[0].place.id, chain]));
    const rows = await asked(this.#context, async ({ postgres }) => postgres.rows.versionsOf(writesIn(acts)));
    return { nowMs, rowVersion: this.#rowVersion, chains, streams: found, rows };
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  /** The connection is given up, and what was sent arrives when a later term may have begun. */
  #late(send: (target: Target) => Promise<Found>): Promise<Found> {
    const { world, random, target } = this.#context;
    const { process } = target() ?? {};
    const arrive = (): void => {
      const now = target();
      if (now === undefined || now.process !== process) return;
      world.hit("driver.late");
      void Promise.resolve(now)
        .then(send)
        .catch(() => undefined);
    };
    world.enqueue(random.int(LATE_MS_MAX), arrive, undefined, process);
    return Promise.reject(new ConnectionLost("the connection was given up"));
  }
}

function questionsTo(context: DrivenContext): StreamQuestions {
  const ask = async <T>(run: (target: Target) => Promise<T>): Promise<T> => {
    try {
      return await asked(context, run);
    } catch (error) {
      throw error instanceof HoldfastError ? error : unavailable("the database cannot be read", error);
    }
  };
  const read: {
    readonly [L in LogName]: (store: StreamStore, ...page: Page) => Promise<readonly LogBatches[L][]>;
  } = {
    events: (store, ...page) => store.readEvents(...page),
    chunks: (store, ...page) => store.readChunks(...page),
  };
  const isNot = (): Promise<never> => Promise.reject(new Error("no simulated node forgets a principal"));
  return {
    now: () => ask(({ store }) => store.now()),
    lookUp: (names) => ask(({ postgres }) => postgres.lookUp(names)),
    page: (log, ...page) => ask(({ store }) => read[log](store, ...page)),
    countOpen: (principal) => ask(({ store }) => store.countOpen(principal)),
    listIdle: (beforeMs, countMax) => ask(({ store }) => store.listIdle(beforeMs, countMax)),
    forgetGone: (beforeMs) => ask(({ store }) => store.forgetGone(beforeMs)),
    namesOf: isNot,
    forget: isNot,
    tidy: () => Promise.resolve(),
  };
}

/** As `Readers` asks: what a lost connection took away is asked again. */
async function askedUntilAnswered(context: DrivenContext, statement: Statement): Promise<readonly Row[]> {
  const { env } = context.process;
  const untilMs = env.monotonic() + PATIENCE_MS;
  for (;;) {
    try {
      return await asked(context, ({ postgres }) => postgres.ask(statement));
    } catch (error) {
      if (!(error instanceof ConnectionLost)) throw error;
      if (env.monotonic() > untilMs) throw unavailable("the database cannot be read", error);
    }
    await new Promise<void>((resolve) => env.after(context.pauseMs ?? PAUSE_MS, resolve));
  }
}

/** There and back over the network; what the database did is not undone when its answer is lost. */
function asked<T>(
  { world, random, faults, process, target, send = atOnce }: DrivenContext,
  run: (target: Target) => Promise<T>,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const reply = (answer: () => void): void =>
      world.enqueue(random.int(faults.delayMsMax + 1), answer, undefined, process);
    const lost = (): void => reject(new ConnectionLost("the connection has ended"));
    const there = target();
    if (there === undefined || world.nowMs < faults.downUntilMs) return reply(lost);
    const goOn = there.process.onCrash(() => reply(lost));
    const carryOut = async (): Promise<void> => {
      try {
        const answer = await run(there);
        goOn();
        reply(random.chance(faults.replyLost) ? lost : () => resolve(answer));
      } catch (cause) {
        goOn();
        if (cause instanceof SqlFailure || cause instanceof ConnectionLost || cause instanceof HoldfastError)
          reply(() => reject(cause));
        else world.fail(cause);
      }
    };
    send(() =>
      world.enqueue(random.int(faults.delayMsMax + 1), () => void carryOut(), undefined, there.process),
    );
  });
}

function atOnce(request: () => void): void {
  request();
}
