/** The same over PostgreSQL: woken by NOTIFY, and, as behind a pooler, by polling alone. */
import { after, before } from "node:test";
import { openPostgresStore } from "../../src/store/postgres/index.ts";
import { type PostgresServer, startPostgres } from "../store/postgres/server.ts";
import { nodesSuite, type SharedWorld } from "./suite.ts";

let server: PostgresServer;
before(async () => {
  server = await startPostgres();
});
after(() => server.close());

function suiteOn(of: string, isRinging: boolean): void {
  nodesSuite(of, async (t): Promise<SharedWorld> => {
    const url = await server.emptyDatabase();
    const first = await openPostgresStore(url);
    t.after(() => first.close());
    const clock = await server.manualClock(url);
    return {
      handle: async () => {
        const store = await openPostgresStore(url, { isRinging });
        t.after(() => store.close());
        return { store: store.streams, letters: store.letters };
      },
      advance: (ms) => clock.advance(ms),
    };
  });
}

suiteOn("nodes on PostgreSQL", true);
suiteOn("nodes on PostgreSQL that only poll", false);
