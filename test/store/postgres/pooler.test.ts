/**
 * A real transaction pooler (PgBouncer) between stores and their server: noticed, and nothing that has to be kept from one transaction to the next is needed.
 *
 * PgBouncer is looked for on the path, and where `HOLDFAST_PGBOUNCER` says it is.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test, type TestContext } from "node:test";
import { freePort, newFolder, userOf } from "../../../src/cli/demo/own-postgres.ts";
import { openPostgresAdmin } from "../../../src/store/postgres/admin.ts";
import { openPostgresStore, type PostgresStore } from "../../../src/store/postgres/index.ts";
import { created, grown, OTHER_HOST, readAll, streamName } from "../../conformance/stream-fixtures.ts";
import { Cli } from "../../cli/cli-process.ts";
import { Exchange } from "../../gateway/openai-user.ts";
import { asked, type PostgresServer, startPostgres } from "./server.ts";

const PGBOUNCER = process.env["HOLDFAST_PGBOUNCER"] ?? "pgbouncer";
const isThere = spawnSync(PGBOUNCER, ["--version"]).status === 0;
const skip = isThere ? false : "there is no PgBouncer on the path";
/** Fewer than the stores have connections, so that one serves many of them. */
const SERVER_CONNECTIONS = 2;
const STREAMS = 20;

let server: PostgresServer;
let pooler: ChildProcess;
let port: number;

before(async () => {
  if (!isThere) return;
  server = await startPostgres();
  port = await freePort();
  const folder = newFolder();
  const file = join(folder, "pgbouncer.ini");
  writeFileSync(
    file,
    `[databases]
* = host=127.0.0.1 port=${server.port} user=holdfast
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = ${SERVER_CONNECTIONS}
max_client_conn = 200
`,
  );
  const starting = spawn(PGBOUNCER, [file], {
    ...userOf(),
    cwd: folder,
    stdio: ["ignore", "ignore", "pipe"],
  });
  pooler = starting;
  await new Promise<void>((resolve, reject) => {
    let said = "";
    starting.once("exit", () => reject(new Error(`PgBouncer did not start: ${said}`)));
    starting.stderr.setEncoding("utf8").on("data", (text: string) => {
      said += text;
      if (said.includes("process up")) resolve();
    });
  });
});

after(async () => {
  if (!isThere) return;
  const ended = once(pooler, "exit");
  pooler.kill("SIGKILL");
  await ended;
  await server.close();
});

const pooled = (url: string): string => url.replace(`:${server.port}`, `:${port}`);

async function opened(t: TestContext, url: string): Promise<PostgresStore> {
  const store = await openPostgresStore(pooled(url), { isRinging: true });
  t.after(() => store.close());
  return store;
}

test(
  "behind a transaction pooler: it is noticed and said, and two nodes that start at once make the tables once",
  { skip },
  async (t) => {
    const url = await server.newDatabase();
    const [one, other] = await Promise.all([opened(t, url), opened(t, url)]);
    assert.deepEqual([one.isPooled, other.isPooled], [true, true]);
    const admin = await openPostgresAdmin(pooled(url), {});
    const { isPooled, schema } = await admin.status();
    assert.deepEqual([isPooled, schema.verdict], [true, "current"]);
    await admin.close();
  },
);

test(
  "behind a transaction pooler: commits, reads, claims and batches of two nodes over two connections",
  { skip },
  async (t) => {
    const url = await server.newDatabase();
    const stores = [await opened(t, url), await opened(t, url)] as const;
    const names = Array.from({ length: STREAMS }, (_, at) => streamName(`s${at}`));
    await Promise.all(
      names.map(async (name, at) => {
        const { streams } = stores[at % 2] ?? stores[0];
        const other = stores[(at + 1) % 2] ?? stores[1];
        let state = await created(streams, name);
        for (let times = 0; times < 5; times++)
          state = await grown(streams, name, state, { chunks: 1, events: 2 });
        const batches = await readAll(1, (from) => other.streams.readEvents(name, from, 10_000));
        assert.equal(
          batches.reduce((sum, { count }) => sum + count, 0),
          10,
        );
        assert.equal((await other.streams.claim(name, OTHER_HOST)).kind, "held");
        await streams.release(name, state.hostEpoch);
        assert.equal((await other.streams.claim(name, OTHER_HOST)).kind, "live");
        await other.tables.batch([{ kind: "put", table: "t", key: String(at), value: Uint8Array.of(at) }]);
        assert.equal((await stores[0].tables.get({ table: "t", key: String(at) }))?.value[0], at);
      }),
    );
    await stores[0].streams.tidy(0);
    const shared = await asked(
      url,
      "SELECT count(*)::int AS count FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'",
    );
    assert.ok(
      Number(shared[0]?.["count"]) <= SERVER_CONNECTIONS,
      "the stores share the pooler's connections",
    );
  },
);

test(
  "A3: behind a transaction pooler a connection that is killed under commits costs nothing",
  { skip },
  async (t) => {
    const url = await server.newDatabase();
    const store = await opened(t, url);
    const name = streamName("s");
    let state = await created(store.streams, name);
    for (let times = 0; times < 5; times++) {
      const next = grown(store.streams, name, state, { events: 1 });
      await asked(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
      );
      state = await next;
    }
    const batches = await readAll(1, (from) => store.streams.readEvents(name, from, 10_000));
    assert.equal(
      batches.reduce((sum, { count }) => sum + count, 0),
      5,
    );
  },
);

test(
  "behind a transaction pooler: two servers say so, and an answer of one is read at the other",
  { skip },
  async (t) => {
    const store = pooled(await server.newDatabase());
    const env = {
      HOLDFAST_HOME_KEY: Buffer.alloc(32, 5).toString("base64url"),
      HOLDFAST_API_KEY: "one-api-key-for-all-nodes",
    };
    const [here, there] = await Promise.all([0, 1].map(() => new Cli(t).serve(["--store", store], env)));
    assert.ok(here !== undefined && there !== undefined);
    for (const { stderr } of [here, there])
      assert.match(stderr(), /is behind a transaction pooler: nodes only poll/);
    const messages = [{ role: "user", content: "count to 40 every 50 ms" }];
    const asking = { apiKey: env.HOLDFAST_API_KEY };
    const first = new Exchange(
      here.url,
      JSON.stringify({ model: "rehearsal", messages, stream: true }),
      asking,
    );
    const path = `/v1/streams/${await first.streamId()}/events`;
    const rest = new Exchange(there.url, undefined, { ...asking, method: "GET", path });
    const replies = await Promise.all([first.reply(), rest.reply()]);
    for (const { isWhole, text, body } of replies) {
      assert.ok(isWhole, body);
      assert.match(text, /^1 2 3 .* 40 $/);
    }
  },
);
