/**
 * Who gets in, and over what: passwords from where libpq's users keep them, and TLS with a certificate that is checked, on a real server that takes no connection without both.
 */
import assert from "node:assert/strict";
import { chmodSync, chownSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { inspect } from "node:util";
import { HoldfastError } from "../../../src/protocol/errors.ts";
import { openPostgresStore } from "../../../src/store/postgres/index.ts";
import { userOf } from "../../../src/cli/demo/own-postgres.ts";
import { temporaryDirectory } from "../../client-node/temporary.ts";
import { testCertificate } from "../../transport/certificate.ts";
import { asked, type PostgresServer, startPostgres } from "./server.ts";

const PASSWORD = "canary-8852-secret";
const CANARY = "canary-8852";
/** The certificate is for localhost and 127.0.0.1; this is the same machine under an address that it does not name. */
const OTHER_HOST = "127.0.0.2";

let server: PostgresServer;
let database: string;
let rootCert: string;

before(async () => {
  server = await startPostgres({ settings: [`listen_addresses = '127.0.0.1,${OTHER_HOST}'`] });
  const superuser = await server.newDatabase();
  database = new URL(superuser).pathname.slice(1);
  await asked(superuser, `CREATE ROLE app LOGIN PASSWORD '${PASSWORD}'`);
  await asked(superuser, `GRANT CREATE ON DATABASE ${database} TO app`);
  rootCert = join(server.folder, "root.crt");
  writeFileSync(rootCert, testCertificate.cert);
  const { uid = -1, gid = -1 } = userOf();
  for (const [name, text] of Object.entries({
    "server.crt": testCertificate.cert,
    "server.key": testCertificate.key,
  })) {
    const path = join(server.folder, "data", name);
    writeFileSync(path, text, { mode: 0o600 });
    if (uid >= 0) chownSync(path, uid, gid);
  }
  const hba = join(server.folder, "data", "pg_hba.conf");
  writeFileSync(hba, "host all holdfast 127.0.0.1/32 trust\nhostssl all app all scram-sha-256\n");
  await asked(superuser, "ALTER SYSTEM SET ssl = on");
  await asked(superuser, "SELECT pg_reload_conf()");
  for (;;) {
    const [row] = await asked(superuser, "SHOW ssl");
    if (row?.["ssl"] === "on") break;
  }
});

after(() => server.close());

interface Way {
  readonly host?: string;
  readonly mode?: string;
  readonly query?: string;
  readonly user?: string;
  readonly variables?: Readonly<Record<string, string>>;
}

/** The store at that address; what its connections are protected by. */
async function protectedBy({
  host = "127.0.0.1",
  mode = "verify-full",
  query = "",
  user = "app",
  variables = {},
}: Way) {
  const root = mode.startsWith("verify") ? `&sslrootcert=${encodeURIComponent(rootCert)}` : "";
  const url = `postgres://${user}@${host}:${server.port}/${database}?sslmode=${mode}${root}${query}`;
  // No file of this machine's user has a part in it.
  const store = await openPostgresStore(url, { variables: { PGPASSFILE: "/none", ...variables } });
  try {
    await store.tables.put({ table: "t", key: "k" }, new Uint8Array([1]));
    const rows = await asked(
      server.urlOf(database),
      "SELECT DISTINCT s.ssl FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE a.usename = 'app'",
    );
    return rows.map(({ ssl }) => ssl);
  } finally {
    await store.close();
  }
}

/** What it is refused with, and that no secret is in it. */
async function refused(way: Way): Promise<string> {
  let shown = "";
  await assert.rejects(protectedBy(way), (error) => {
    assert.ok(error instanceof HoldfastError);
    assert.ok(!inspect(error, { depth: 8 }).includes(CANARY));
    shown = error.message;
    return true;
  });
  return shown;
}

const ENV = { variables: { PGPASSWORD: PASSWORD } };

test("E4: sslmode=verify-full checks the certificate against the root and the host's name; every connection of the store is TLS", async (t) => {
  const warnings: Error[] = [];
  const warned = (warning: Error): number => warnings.push(warning);
  process.on("warning", warned);
  t.after(() => process.off("warning", warned));
  assert.deepEqual(await protectedBy(ENV), [true]);
  assert.deepEqual(await protectedBy({ ...ENV, host: "localhost" }), [true]);
  assert.deepEqual(warnings, []);
});

const skip = process.platform === "linux" ? false : `only Linux answers at ${OTHER_HOST}`;

test(
  "E4: sslmode=verify-full refuses a host that the certificate does not name; verify-ca takes it",
  { skip },
  async () => {
    assert.match(await refused({ ...ENV, host: OTHER_HOST }), /altnames|does not match/i);
    assert.deepEqual(await protectedBy({ ...ENV, host: OTHER_HOST, mode: "verify-ca" }), [true]);
  },
);

test("E4: a certificate of nobody is refused without its root, and sslmode=require asks for none", async () => {
  assert.match(await refused({ ...ENV, mode: "verify-full", query: "&sslrootcert=system" }), /self-signed/);
  assert.deepEqual(await protectedBy({ ...ENV, mode: "require" }), [true]);
});

test("sslmode=prefer, as libpq has it by default, takes TLS where the server has it; without TLS this server lets nobody in", async () => {
  assert.deepEqual(await protectedBy({ ...ENV, mode: "prefer" }), [true]);
  assert.match(await refused({ ...ENV, mode: "disable" }), /no pg_hba\.conf entry/);
});

test("E4: the password comes from the address, PGPASSWORD or a password file, and is in no refusal", async (t) => {
  assert.deepEqual(await protectedBy({ user: `app:${PASSWORD}` }), [true]);
  const passfile = join(temporaryDirectory(t), "passwords");
  writeFileSync(passfile, `# a comment\nother:*:*:*:x\n127.0.0.1:${server.port}:*:app:${PASSWORD}\n`, {
    mode: 0o600,
  });
  assert.deepEqual(await protectedBy({ query: `&passfile=${encodeURIComponent(passfile)}` }), [true]);
  assert.deepEqual(await protectedBy({ variables: { PGPASSFILE: passfile } }), [true]);
  assert.match(
    await refused({ variables: { PGPASSWORD: `${CANARY}-wrong` } }),
    /password authentication failed/,
  );
  chmodSync(passfile, 0o644);
  assert.match(
    await refused({ variables: { PGPASSFILE: passfile } }),
    /asks app for a password: set PGPASSWORD.*chmod 600/,
  );
  assert.match(await refused({}), /asks app for a password: set PGPASSWORD, or write it into \/none$/);
});
