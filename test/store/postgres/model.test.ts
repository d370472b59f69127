/** The stream store in PostgreSQL, against the naive one: random histories with restarts. */
import { after, before, test } from "node:test";
import * as fc from "fast-check";
import { openPostgresStore } from "../../../src/store/postgres/index.ts";
import { round, Run } from "../stream-model.ts";
import { type PostgresServer, startPostgres } from "./server.ts";

let server: PostgresServer;
before(async () => {
  server = await startPostgres();
});
after(() => server.close());

test("A3: random histories with restarts give the same answers as a naive store", async () => {
  const url = await server.emptyDatabase();
  await (await openPostgresStore(url)).close();
  const clock = await server.manualClock(url);
  await fc.assert(
    fc.asyncProperty(fc.array(round, { maxLength: 30, size: "max" }), async (rounds) => {
      await server.emptyDatabase();
      const open = async () => (await openPostgresStore(url)).streams;
      await new Run({ open, onTime: clock.set, isOrderedByStream: true }).play(rounds);
    }),
    // Each of its operations is a real commit; many more were played when it was made.
    { numRuns: 8 },
  );
});
