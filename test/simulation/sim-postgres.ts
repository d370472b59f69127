/**
 * The database that the production PostgreSQL store writes to in the simulator: it carries out groups as one transaction each, over the log on the simulated disk.
 *
 * What a group asks for is judged here as the statements judge it (`src/store/postgres/stream-sql.ts`); all that fits goes into one record of the log, so that it is durable as a whole or
 * not at all. What is kept beside the log is what a table would have: ids of streams, who made them, and the receipts. A database that dies under a group finds by what the log has
 * whether that group happened.
 */
import type { StreamName, StreamState } from "../../src/core/stream-state.ts";
import { nameKey } from "../../src/store/stream-index.ts";
import type { Absent, Gone, Live, Seen, StreamStore } from "../../src/store/stream-store.ts";
import type { Act, CreateAct } from "../../src/store/postgres/acts.ts";
import type { Row, Statement } from "../../src/store/postgres/driver.ts";
import type { Found } from "../../src/store/postgres/group-carrier.ts";
import { type Chain, chainsOf, needsRowsBefore, shapeOf } from "../../src/store/postgres/plan.ts";
import type { StoredStream } from "../../src/store/postgres/stream-rows.ts";
import { fail } from "./log-checks.ts";
import { SimRows } from "./sim-rows.ts";

export interface GroupSender {
  readonly store: number;
  readonly term: number;
  readonly groupNumber: number;
}

interface Receipt {
  term: number;
  groupNumber: number;
  /** Of the rows that its latest group wrote. */
  rowVersion: number;
}

interface RowFacts {
  readonly id: number;
  readonly birth: number;
  /** Whose lease it was when it was last looked at. */
  hostId: string;
}

interface UnderWay {
  readonly sender: GroupSender;
  readonly names: readonly StreamName[];
  readonly before: readonly (Seen | Gone | Absent)[];
}

/** What the server says of a transaction that it undid. */
export class SqlFailure extends Error {
  readonly code: string;

  constructor(code: string) {
    super(`SQLSTATE ${code}`);
    this.code = code;
  }
}

/** Nothing is known of what was asked. */
export class ConnectionLost extends Error {}

/** By which a receipt refuses a term that is over. */
const DIVISION_BY_ZERO = "22012";
const LEASE_RUNS_MS = 1;

export class SimPostgres {
  /** What there is beside the streams. It is kept as soon as it is done, so no database dies that has batches of rows in it: their groups would be half there. */
  readonly rows: SimRows;
  readonly #facts = new Map<string, RowFacts>();
  readonly #receipts = new Map<number, Receipt>();
  #underWay: UnderWay | undefined;
  #store: StreamStore | undefined;
  #turn: Promise<unknown> = Promise.resolve();
  #stores = 0;

  constructor(now: () => number) {
    this.rows = new SimRows(now);
  }

  newStore(): number {
    return ++this.#stores;
  }

  /** Up again, over what the disk has. */
  async begin(store: StreamStore): Promise<void> {
    const was = this.#underWay;
    this.#turn = Promise.resolve();
    if (was !== undefined) {
      const now = await store.look(was.names);
      if (now.some((view, at) => isOther(was.before[at], view))) this.#happened(was.sender, 0);
      this.#underWay = undefined;
    }
    this.#store = store;
  }

  end(): void {
    this.#store = undefined;
  }

  /** Of the store that writes: nothing of an earlier term can happen behind it. */
  raiseTerm(store: number): Promise<Readonly<Receipt>> {
    return this.#inTurn(async () => {
      const { term, ...latest } = this.#receipts.get(store) ?? { term: 0, groupNumber: 0, rowVersion: 0 };
      const raised = { term: term + 1, ...latest };
      this.#receipts.set(store, raised);
      return raised;
    });
  }

  carryOut(sender: GroupSender, acts: readonly Act[]): Promise<Found> {
    return this.#inTurn(async (store) => {
      if (this.#receipts.get(sender.store)?.term !== sender.term) throw new SqlFailure(DIVISION_BY_ZERO);
      const names = acts.flatMap((act) => ("name" in act ? [act.name] : []));
      this.#underWay = { sender, names, before: await store.look(names) };
      const found = await this.#change(store, acts);
      this.#happened(sender, found.rowVersion);
      this.#underWay = undefined;
      return found;
    });
  }

  async ask(statement: Statement): Promise<readonly Row[]> {
    this.#up();
    return this.rows.carryOut(statement);
  }

  async lookUp(
    names: readonly StreamName[],
  ): Promise<{ readonly nowMs: number; readonly found: ReadonlyMap<string, StoredStream | Gone> }> {
    const store = this.#up();
    const [nowMs, views] = await Promise.all([store.now(), store.look(names)]);
    const found = new Map<string, StoredStream | Gone>();
    for (const [at, name] of names.entries()) {
      const view = views[at];
      if (view?.kind === "gone") found.set(nameKey(name), view);
      if (view?.kind === "live") found.set(nameKey(name), this.#stored(name, view, nowMs));
    }
    return { nowMs, found };
  }

  /** Everything that one group changes is asked of the log at once, and shares its record. */
  async #change(store: StreamStore, acts: readonly Act[]): Promise<Found> {
    const placed = acts.filter((act) => "place" in act);
    const chains = chainsOf(acts);
    const creates = acts.filter((act) => act.kind === "create");
    const isLocking = needsRowsBefore(acts, chains);
    const { nowMs, found } = await this.lookUp([...placed, ...creates].map(({ name }) => name));
    const unborn = creates.filter(({ name }) => !found.has(nameKey(name)));
    const rows = new Map<number, StoredStream>();
    for (const { name, place } of placed) {
      const row = found.get(nameKey(name));
      if (row !== undefined && !("kind" in row) && row.id === place.id) rows.set(row.id, row);
    }
    const applied = { commit: new Set<number>(), claim: new Set<number>(), renew: new Set<number>() };
    const ended = { release: new Set<number>(), expire: new Set<number>() };
    const after: [number, StreamState][] = [];
    const changes = chains.map(async (chain) => {
      const { id } = chain[0].place;
      const row = rows.get(id);
      if (row === undefined || !fits(row.state, chain)) return;
      const results = await Promise.all(chain.map(({ commit }) => store.commit(commit)));
      for (const result of results) {
        if (result.kind !== "committed") fail("A1", "what fits a stream's row is committed to it");
        after.push([id, result.state]);
      }
      applied.commit.add(id);
    });
    const others = placed.map(async (act) => {
      const row = rows.get(act.place.id);
      if (row === undefined) return;
      if (act.kind === "claim") {
        const claimed = await store.claim(act.name, act.host);
        if (claimed.kind === "live") applied.claim.add(row.id);
        if (claimed.kind === "held")
          rows.set(row.id, {
            ...row,
            lease: { hostId: claimed.hostId, leaseMs: 0, untilMs: nowMs + claimed.leaseLeftMs },
          });
        this.#factsOf(act.name).hostId = claimed.kind === "held" ? claimed.hostId : act.host.hostId;
      }
      if (act.kind === "renew" && (await store.renew(act.name, act.hostEpoch, act.leaseMs)))
        applied.renew.add(row.id);
      if (act.kind === "release") {
        await store.release(act.name, act.hostEpoch);
        if (row.state.hostEpoch === act.hostEpoch) ended.release.add(row.id);
      }
      if (act.kind === "expire" && (await store.expire(act.name, act.hostEpoch)).kind === "gone")
        ended.expire.add(row.id);
    });
    await Promise.all([...changes, ...others, ...unborn.map((act) => this.#create(store, act))]);
    const made = await this.lookUp(creates.map(({ name }) => name));
    const written = this.rows.write(acts.filter((act) => act.kind === "write"));
    const extra = acts.filter((act) => act.kind === "statement");
    const before = [...rows].filter(([id]) => isLocking || !applied.commit.has(id));
    return {
      nowMs,
      ...written,
      before: new Map(before),
      after: new Map(isLocking ? [] : after),
      chains: new Map(chains.map((chain) => [chain[0].place.id, chain])),
      applied: { ...applied, ...ended },
      made: made.found,
      rowsOf: new Map(extra.map((act) => [act, this.rows.carryOut(act.statement)])),
    };
  }

  /** Of a stream that is not there yet only this group can be the maker, whenever the log has it. */
  async #create(store: StreamStore, { name, creation, birth }: CreateAct): Promise<void> {
    const id = this.#facts.get(nameKey(name))?.id ?? this.#facts.size + 1;
    this.#facts.set(nameKey(name), { id, birth, hostId: creation.host.hostId });
    await store.create(creation);
  }

  #stored(name: StreamName, { state, hostId }: Seen, nowMs: number): StoredStream {
    const facts = this.#factsOf(name);
    if (hostId !== undefined) facts.hostId = hostId;
    const untilMs = hostId === undefined ? 0 : nowMs + LEASE_RUNS_MS;
    const { id, birth } = facts;
    return { id, birth, period: 0, state, lease: { hostId: facts.hostId, leaseMs: 0, untilMs } };
  }

  #factsOf(name: StreamName): RowFacts {
    return this.#facts.get(nameKey(name)) ?? fail("A7", "a stream that is there was made");
  }

  #happened({ store, groupNumber }: GroupSender, rowVersion: number): void {
    const receipt = this.#receipts.get(store);
    if (receipt !== undefined) Object.assign(receipt, { groupNumber, rowVersion });
  }

  /** One transaction behind the other: the locks of all of them are one. */
  #inTurn<T>(transaction: (store: StreamStore) => Promise<T>): Promise<T> {
    const life = this.#up();
    const run = this.#turn.then(() => {
      // The log failed under the group before: nothing is known until the database is up again.
      if (this.#underWay !== undefined || this.#store !== life)
        throw new ConnectionLost("the connection has ended");
      return transaction(life);
    });
    this.#turn = run.catch(() => undefined);
    return run;
  }

  #up(): StreamStore {
    if (this.#store === undefined) throw new ConnectionLost("the connection has ended");
    return this.#store;
  }
}

/** As the statement compares. */
function fits(state: StreamState, chain: Chain): boolean {
  const { expected, after, change, isSound } = shapeOf(chain);
  const { eventFloor, writer } = change;
  return (
    isSound &&
    state.hostEpoch === expected.hostEpoch &&
    state.nextSeqno === expected.nextSeqno &&
    state.eventHead === expected.eventHead &&
    (after.eventHead === expected.eventHead || state.end === undefined) &&
    (after.nextSeqno === expected.nextSeqno || !state.closed) &&
    (eventFloor === undefined || (eventFloor >= state.eventFloor && eventFloor <= after.eventHead + 1)) &&
    (writer === undefined ||
      (writer.writerEpoch >= state.writerEpoch && writer.writers.length >= state.writers.length))
  );
}

function isOther(before: Live | Gone | Absent | undefined, now: Live | Gone | Absent): boolean {
  if (before?.kind !== "live" || now.kind !== "live") return before?.kind !== now.kind;
  const shown = ({ state }: Live): string => JSON.stringify(state);
  return shown(before) !== shown(now);
}
