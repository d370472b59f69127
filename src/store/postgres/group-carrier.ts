/**
 * How a group gets to the database, and what the database answers: the one place where the writer's groups are SQL.
 *
 * The writer knows it as an interface, so that the same writer, with all that it decides, also runs over the simulator's database.
 */
import type { Act } from "./acts.ts";
import { readStreams } from "./commit-sql.ts";
import type { Answer, Row, Statement } from "./driver.ts";
import { meaningOf } from "./failures.ts";
import { type Fate, fateOf, type Receipt } from "./group-fate.ts";
import {
  beginning,
  COMMIT,
  groupStatements,
  HAS_STANDBYS,
  namesIn,
  readBackOf,
  writesIn,
} from "./group-statements.ts";
import type { Opening, Openings } from "./openings.ts";
import { storedStream, type StoredStream } from "./stream-rows.ts";
import { lookUp } from "./stream-sql.ts";
import { rowVersions } from "./table-sql.ts";
import type { Outcome, ReadBack } from "./verdicts.ts";

/** What a group that is committed found and did. */
export type Found = Outcome & { readonly rowsOf: ReadonlyMap<Act, readonly Row[]> };

/** What became of a group, and of one that is committed what it found. */
export type Carried =
  | { readonly kind: "committed"; readonly found: Found }
  | Exclude<Fate, { readonly kind: "committed" }>;

/** One group at a time. */
export interface GroupCarrier {
  /** Rejects when the database stays away. */
  carry(groupNumber: number, acts: readonly Act[]): Promise<Carried>;
  /** Behind a group of unknown fate: its receipt, from when on nothing of it can happen any more. Rejects when the database stays away. */
  settle(cause: unknown): Promise<Receipt>;
  /** What there is of a group that has happened. Behind `settle`. */
  readBack(acts: readonly Act[]): Promise<ReadBack>;
  close(): Promise<void>;
}

export class SqlCarrier implements GroupCarrier {
  readonly #openings: Openings;
  /** After so long without an answer a connection counts as lost. */
  readonly #answerMsMax: number;
  /** What clients were told that a commit survives. */
  readonly #isQuorum: boolean;
  /** Over which the latest group was sent. */
  #opening: Opening;

  constructor(openings: Openings, first: Opening, answerMsMax: number) {
    this.#openings = openings;
    this.#opening = first;
    this.#isQuorum = first.connection.settings.durability === "quorum";
    this.#answerMsMax = answerMsMax;
  }

  async carry(groupNumber: number, acts: readonly Act[]): Promise<Carried> {
    const opening = await this.#openings.current();
    this.#opening = opening;
    const group = groupStatements({ ...opening, groupNumber }, acts);
    const sent = [beginning(opening.connection.settings), ...group.statements, COMMIT];
    // Asked behind the commit: it may have waited for standbys that an operator has given up meanwhile.
    const asked = this.#isQuorum ? [HAS_STANDBYS] : [];
    const answered = await this.#send(opening, [...sent, ...asked]);
    const results = answered.results.slice(0, sent.length);
    const isLess = answered.results
      .slice(sent.length)
      .some((result) => result.status === "rejected" || result.value.rows.length === 0);
    const fate = fateOf(results, answered.hasWarning || isLess);
    if (fate.kind !== "committed") return fate;
    const answers = results.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
    const behind = answers.slice(1);
    const found = group.outcome(behind);
    const left = group.leftOut(behind);
    const before = left.length === 0 ? found.before : await this.#read(left);
    return { kind: "committed", found: { ...found, before } };
  }

  async settle(cause: unknown): Promise<Receipt> {
    this.#opening = await this.#openings.replace(this.#opening, cause);
    return this.#opening;
  }

  async readBack(acts: readonly Act[]): Promise<ReadBack> {
    const { connection, receipt } = this.#opening;
    const [streams, rows] = await Promise.all([
      connection.ask(lookUp(namesIn(acts))),
      connection.ask(rowVersions(writesIn(acts))),
    ]);
    return readBackOf(acts, receipt, streams.rows, rows.rows);
  }

  close(): Promise<void> {
    return this.#openings.close();
  }

  /** What stands in the way of commits that were left out. */
  async #read(ids: readonly number[]): Promise<ReadonlyMap<number, StoredStream>> {
    for (;;) {
      const { connection } = await this.#openings.current();
      try {
        const streams = (await connection.ask(readStreams(ids))).rows.map(storedStream);
        return new Map(streams.map((stream) => [stream.id, stream]));
      } catch (error) {
        if (meaningOf(error) !== "lost") throw error;
      }
    }
  }

  /** Sends everything at once and waits for all answers, as long as there is hope for one. */
  async #send(
    { connection }: Opening,
    statements: readonly Statement[],
  ): Promise<{ readonly results: readonly PromiseSettledResult<Answer>[]; readonly hasWarning: boolean }> {
    let hasWarning = false;
    connection.onWarning = () => (hasWarning = true);
    const timer = setTimeout(() => connection.cut(), this.#answerMsMax);
    const results = await connection.askAll(statements);
    clearTimeout(timer);
    connection.onWarning = undefined;
    return { results, hasWarning };
  }
}
