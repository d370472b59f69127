/**
 * A group as it is sent: which statements, in which order, and what their answers say together.
 *
 * Invariant: the order is the same in every group of every node (streams by id, names that are made, rows by key), so no two of them wait for each
 * other in a circle; and blobs and batches come right behind commits and creations, before anything else writes those rows.
 */
import { assert } from "../../protocol/assert.ts";
import { nameKey } from "../stream-index.ts";
import type { Gone } from "../stream-store.ts";
import type { Act, CreateAct, StatementAct, WriteAct } from "./acts.ts";
import { type Answer, number, type Row, type Statement, text } from "./driver.ts";
import { commitStreams, lockStreams } from "./commit-sql.ts";
import { type Chain, chainsOf, needsRowsBefore } from "./plan.ts";
import type { Usable } from "./settings.ts";
import { changingState, goneStream, type StoredStream, storedStream } from "./stream-rows.ts";
import {
  claimStreams,
  createStreams,
  expireStreams,
  lookUp,
  releaseLeases,
  renewLeases,
  storeContents,
  trimLogs,
} from "./stream-sql.ts";
import { removeLetters } from "./letter-sql.ts";
import { failuresOf, writeRows } from "./table-sql.ts";
import type { Outcome, ReadBack } from "./verdicts.ts";

/** Of the open store that sends it. */
interface Sender {
  readonly store: number;
  readonly term: number;
  readonly groupNumber: number;
}

interface GroupStatements {
  readonly statements: readonly Statement[];
  /** What a committed group found, from the answers to the statements, in their order. */
  outcome(
    answers: readonly Answer[],
  ): Outcome & { readonly rowsOf: ReadonlyMap<StatementAct, readonly Row[]> };
  /** The streams that a group without locks has left out, from the same. */
  leftOut(answers: readonly Answer[]): readonly number[];
}

/**
 * The planner gets no choice: every row is found by an index, in the order in which they are asked for, and a plan that was made while the tables were small is right when they are large.
 */
const WAYS_OFF = ["enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin"];

/** For all groups of a connection; behind a pooler, which forgets it, each group says it for itself. */
export const PLANNING: Statement = { text: WAYS_OFF.map((way) => `SET ${way} = off`).join("; ") };

/** What is durable is decided by this transaction and not by a setting of the connection. */
export function beginning({
  synchronousCommit,
  isPooled,
}: Pick<Usable, "synchronousCommit" | "isPooled">): Statement {
  const planning = isPooled ? WAYS_OFF.map((way) => `; SET LOCAL ${way} = off`) : [];
  return { text: `BEGIN; SET LOCAL synchronous_commit = ${synchronousCommit}${planning.join("")}` };
}

export const COMMIT: Statement = { text: "COMMIT" };

/** No row when the server waits for no standby any more. */
export const HAS_STANDBYS: Statement = {
  name: "holdfast-standbys",
  text: "SELECT 1 AS kept WHERE btrim(current_setting('synchronous_standby_names')) <> ''",
};

/** Divides by zero when the term is over: then the whole transaction is undone. */
function receipt({ store, term, groupNumber }: Sender): Statement {
  return {
    name: "holdfast-receipt",
    text: `WITH mine AS (
        UPDATE holdfast.receipts SET group_number = $3, row_version = nextval('holdfast.row_versions'), now_ms = holdfast.now_ms()
        WHERE store = $1 AND term = $2 RETURNING now_ms, row_version)
      SELECT 1 / count(*) AS is_ours, max(now_ms) AS now_ms, max(row_version) AS row_version FROM mine`,
    values: [store, term, groupNumber],
  };
}

export function groupStatements(sender: Sender, acts: readonly Act[]): GroupStatements {
  const { store } = sender;
  const of = <K extends Act["kind"]>(kind: K): readonly Extract<Act, { kind: K }>[] =>
    acts.filter((act): act is Extract<Act, { kind: K }> => act.kind === kind);
  const chains = chainsOf(acts);
  const creates = of("create").toSorted((a, b) => Buffer.compare(nameBytes(a), nameBytes(b)));
  const writes = of("write");
  const extra = of("statement");
  const ids = [...new Set(acts.flatMap((act) => ("place" in act ? [act.place.id] : [])))].toSorted(
    (a, b) => a - b,
  );
  const isLocking = needsRowsBefore(acts, chains);

  const statements: Statement[] = [];
  /** Adds statements; returns where the last one's answer will be. */
  const add = (...more: readonly (Statement | undefined)[]): number => {
    for (const statement of more) if (statement !== undefined) statements.push(statement);
    return statements.length - 1;
  };
  const addFor = <T>(list: readonly T[], make: (list: readonly T[]) => Statement): number | undefined =>
    list.length === 0 ? undefined : add(make(list));

  const receiptAt = add(receipt(sender));
  const lockAt = isLocking ? addFor(ids, lockStreams) : undefined;
  const commitAt = addFor(chains, (list) => commitStreams(store, list));
  if (creates.length > 0) add(...createStreams(store, creates));
  add(...storeContents(store, acts, chains), trimLogs(chains), removeLetters(chains));
  const madeAt = addFor(creates, lookUp);
  const claimAt = addFor(of("claim"), (list) => claimStreams(store, list));
  const renewAt = addFor(of("renew"), (list) => renewLeases(store, list));
  const releaseAt = addFor(of("release"), releaseLeases);
  const expireAt = addFor(of("expire"), (list) => expireStreams(store, list));
  const writesAt = writes.length === 0 ? undefined : add(...writeRows(store, writes));
  const extraAt = statements.length;
  add(...extra.map(({ statement }) => statement));

  return {
    statements,
    leftOut(answers) {
      const done = commitAt === undefined ? undefined : answers[commitAt]?.rows.length;
      if (isLocking || done === undefined || done === ids.length) return [];
      const taken = new Set(answers[commitAt ?? 0]?.rows.map((row) => number(row, "id")));
      return ids.filter((id) => !taken.has(id));
    },
    outcome(answers) {
      const rowsAt = (at: number | undefined): readonly Row[] =>
        at === undefined ? [] : (answers[at]?.rows ?? []);
      const idsAt = (at: number | undefined): ReadonlySet<number> =>
        new Set(rowsAt(at).map((row) => number(row, "id")));
      const [mine] = rowsAt(receiptAt);
      assert(mine !== undefined, "a group has a receipt");
      const before = rowsAt(lockAt).map(storedStream);
      const after = isLocking ? [] : rowsAt(commitAt);
      return {
        nowMs: number(mine, "now_ms"),
        rowVersion: number(mine, "row_version"),
        before: new Map(before.map((stream) => [stream.id, stream])),
        after: new Map(after.map((row) => [number(row, "id"), changingState(row)])),
        chains: chainsById(chains),
        applied: {
          commit: idsAt(commitAt),
          claim: idsAt(claimAt),
          renew: idsAt(renewAt),
          release: idsAt(releaseAt),
          expire: idsAt(expireAt),
        },
        made: foundUnder(creates, rowsAt(madeAt)),
        failedWrites: failuresOf(writes, new Set(rowsAt(writesAt).map((row) => number(row, "number")))),
        rowsOf: new Map(extra.map((act, at) => [act, rowsAt(extraAt + at)])),
      };
    },
  };
}

/** What `lookUp` found under each name; a name with nothing under it is left out. */
export function foundUnder(
  names: readonly Pick<CreateAct, "name">[],
  rows: readonly Row[],
): ReadonlyMap<string, StoredStream | Gone> {
  const found = new Map<string, StoredStream | Gone>();
  for (const row of rows) {
    const name = names[number(row, "at") - 1]?.name;
    assert(name !== undefined, "what is found was asked for");
    if (row["id"] !== null) found.set(nameKey(name), storedStream(row));
    else if (row["gone_ms"] !== null) found.set(nameKey(name), goneStream(row));
  }
  return found;
}

function chainsById(chains: readonly Chain[]): ReadonlyMap<number, Chain> {
  return new Map(chains.map((chain) => [chain[0].place.id, chain]));
}

/** What has to be read for `readBackOf`: the streams of a group, and the rows that it wrote. */
export function namesIn(acts: readonly Act[]): readonly Pick<CreateAct, "name">[] {
  const names = new Map(acts.flatMap((act) => ("name" in act ? [[nameKey(act.name), act]] : [])));
  return [...names.values()];
}

export function writesIn(acts: readonly Act[]): readonly WriteAct[] {
  return acts.filter((act) => act.kind === "write");
}

export function readBackOf(
  acts: readonly Act[],
  receipt: Pick<ReadBack, "nowMs" | "rowVersion">,
  streams: readonly Row[],
  rows: readonly Row[],
): ReadBack {
  return {
    ...receipt,
    chains: chainsById(chainsOf(acts)),
    streams: foundUnder(namesIn(acts), streams),
    rows: new Map(rows.map((row) => [`${text(row, "tab")}\0${text(row, "key")}`, number(row, "version")])),
  };
}

function nameBytes({ name }: CreateAct): Uint8Array {
  return Buffer.from(`${name.principal}\0${name.idempotencyKey}`);
}
