/**
 * Connections to PostgreSQL: the only file that knows the package `pg`, which is loaded when the first connection is opened.
 *
 * A connection is handed out only after its settings were looked at. Numbers come as numbers, bytes as bytes; every column is read by a function that
 * says what it must be.
 */
import { readFile, stat } from "node:fs/promises";
import { isIP, Socket } from "node:net";
import type { Client, ClientConfig, QueryConfig } from "pg";
import { assert } from "../../protocol/assert.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { type Address, type HostPort, passwordIn, type Protection, shown } from "./address.ts";
import { sqlState } from "./failures.ts";
import { judgeSettings, type Settings, type Usable } from "./settings.ts";

export type Value = string | number | boolean | Buffer | null;

export interface Statement {
  readonly text: string;
  readonly values?: readonly Value[];
  /** The server keeps its plan under this name. */
  readonly name?: string;
}

export type Row = Readonly<Record<string, unknown>>;

export interface Answer {
  /** What was carried out, as the server calls it: "COMMIT", "ROLLBACK". */
  readonly command: string;
  readonly rows: readonly Row[];
}

export interface Connection {
  readonly settings: Usable;
  /** Of the server's process, to end it when it is not heard of any more. */
  readonly processId: number | undefined;
  /** Resolves when the connection is gone, whichever side ended it. */
  readonly gone: Promise<Error>;
  ask(statement: Statement): Promise<Answer>;
  /** One behind the other, in one piece: each is carried out, or refused because of one before it. */
  askAll(statements: readonly Statement[]): Promise<readonly PromiseSettledResult<Answer>[]>;
  /** Called with each warning of the server. */
  onWarning: (() => void) | undefined;
  onNotification: ((payload: string) => void) | undefined;
  end(): Promise<void>;
  /** Without a farewell. */
  cut(): void;
}

const NOT_ALLOWED = "42501";
const INT8 = 20;
const BYTEA = 17;

const SETTINGS = `SELECT current_setting('server_version_num')::int AS version_number,
  current_setting('server_encoding') AS encoding, pg_is_in_recovery() AS is_replica,
  current_setting('transaction_read_only') AS is_read_only, current_setting('fsync') AS fsync,
  current_setting('default_transaction_read_only') AS is_read_only_by_default,
  current_setting('full_page_writes') AS full_page_writes, current_setting('synchronous_commit') AS synchronous_commit,
  current_setting('synchronous_standby_names') AS standbys, pg_backend_pid() AS answered_by`;

/** Tries each host and each kind of protection in turn. Rejects with what is wrong with the last one. */
export async function connect(address: Address, applicationName: string): Promise<Connection> {
  let last: unknown;
  for (const place of address.hosts) {
    for (const protection of address.protections) {
      try {
        return await connectTo(address, place, protection, applicationName);
      } catch (error) {
        if (error instanceof HoldfastError && error.code === "invalid_argument") throw error;
        last = error;
      }
    }
  }
  if (last instanceof HoldfastError) throw last;
  // What a server says to a connection that it refuses names users and databases, no secrets.
  const why = last instanceof Error ? last.message : String(last);
  throw new HoldfastError("unavailable", `PostgreSQL at ${shown(address)} cannot be reached: ${why}`, {
    cause: last,
  });
}

async function connectTo(
  address: Address,
  place: HostPort,
  protection: Protection,
  applicationName: string,
): Promise<Connection> {
  const { default: pg } = await import("pg");
  const client = new pg.Client({
    ...place,
    user: address.user,
    database: address.database,
    // The file is looked at when the server asks.
    password: address.password ?? (() => passwordFromFile(address, place)),
    ssl: await tlsOf(address, place, protection),
    application_name: applicationName,
    connectionTimeoutMillis: address.connectTimeoutMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    pipeline: true,
    types: { getTypeParser: parserOf },
  } satisfies ClientConfig);
  const { promise: gone, resolve } = Promise.withResolvers<Error>();
  client.on("error", resolve);
  client.on("end", () => resolve(new Error("the connection has ended")));
  try {
    await client.connect();
    const settings = settingsOf(await client.query(SETTINGS), processIdOf(client));
    const verdict = judgeSettings(settings);
    if (verdict.kind === "usable") return wrapped(client, verdict, gone);
    throw new HoldfastError(
      verdict.isElsewhere ? "unavailable" : "invalid_argument",
      `PostgreSQL at ${shown(address)} cannot be used: ${verdict.why}`,
    );
  } catch (error) {
    void client.end().catch(() => undefined);
    throw error;
  }
}

function wrapped(client: Client, settings: Usable, gone: Promise<Error>): Connection {
  const connection: Connection = {
    settings,
    processId: settings.isPooled ? undefined : processIdOf(client),
    gone,
    onWarning: undefined,
    onNotification: undefined,
    async ask({ text, values, name }) {
      const query: QueryConfig = { text };
      if (values !== undefined) query.values = [...values];
      if (name !== undefined && !settings.isPooled) query.name = name;
      const result: unknown = await client.query(query);
      // Several commands in one text: the last one's answer.
      return answerOf(Array.isArray(result) ? result.at(-1) : result);
    },
    askAll(statements) {
      const socket = socketOf(client);
      socket?.cork();
      const answers = statements.map((statement) => connection.ask(statement));
      socket?.uncork();
      return Promise.allSettled(answers);
    },
    end: () => client.end(),
    cut: () => socketOf(client)?.destroy(),
  };
  client.on("notice", ({ severity }) => {
    if (severity === "WARNING") connection.onWarning?.();
  });
  client.on("notification", ({ payload }) => connection.onNotification?.(payload ?? ""));
  return connection;
}

/** The same, for what a start does and an operator asks: says what to grant when the role lacks a right. */
export async function connectToChange(address: Address, applicationName: string): Promise<Connection> {
  const connection = await connect(address, applicationName);
  const { user, database } = address;
  return {
    ...connection,
    ask: (statement) =>
      connection.ask(statement).catch((cause: unknown) => {
        if (sqlState(cause) !== NOT_ALLOWED) throw cause;
        throw new HoldfastError(
          "invalid_argument",
          `PostgreSQL at ${shown(address)} cannot be used: the role ${user} may not make, change or read Holdfast's tables; let it own the schema holdfast with all that is in it, or, where there is none yet, GRANT CREATE ON DATABASE ${database} TO ${user}`,
          { cause },
        );
      }),
  };
}

function answerOf(result: unknown): Answer {
  assert(typeof result === "object" && result !== null, "a query has a result");
  return { command: "", rows: [], ...result };
}

function settingsOf(result: { readonly rows: readonly Row[] }, greetedBy: number | undefined): Settings {
  const [row] = result.rows;
  assert(row !== undefined, "settings are one row");
  return {
    versionNumber: number(row, "version_number"),
    encoding: text(row, "encoding"),
    isReplica: flag(row, "is_replica"),
    isReadOnly: text(row, "is_read_only") === "on",
    isReadOnlyByDefault: text(row, "is_read_only_by_default") === "on",
    fsync: text(row, "fsync"),
    fullPageWrites: text(row, "full_page_writes"),
    synchronousCommit: text(row, "synchronous_commit"),
    synchronousStandbys: text(row, "standbys"),
    greetedBy,
    answeredBy: number(row, "answered_by"),
  };
}

/** Not in the package's types. */
function processIdOf(client: object): number | undefined {
  const processId: unknown = Reflect.get(client, "processID");
  return typeof processId === "number" ? processId : undefined;
}

/** Ending a client waits for what is under way, and this must not. Not in the package's types either. */
function socketOf(client: object): Socket | undefined {
  const connection: unknown = Reflect.get(client, "connection");
  if (typeof connection !== "object" || connection === null) return undefined;
  const stream: unknown = Reflect.get(connection, "stream");
  return stream instanceof Socket ? stream : undefined;
}

async function passwordFromFile(address: Address, place: HostPort): Promise<string> {
  const { passfile } = address;
  const mode = await stat(passfile).then(
    (found) => found.mode,
    () => undefined,
  );
  // As libpq: a file that others may read is not used.
  const isOpen = process.platform !== "win32" && ((mode ?? 0) & 0o077) !== 0;
  const text = mode === undefined || isOpen ? "" : await readFile(passfile, "utf8").catch(() => "");
  const found = passwordIn(text, place, address);
  if (found !== undefined) return found;
  const why = isOpen ? " (which others can read: chmod 600)" : "";
  throw new HoldfastError(
    "unavailable",
    `PostgreSQL at ${shown(address)} asks ${address.user} for a password: set PGPASSWORD, or write it into ${passfile}${why}`,
  );
}

async function tlsOf(
  address: Address,
  { host }: HostPort,
  protection: Protection,
): Promise<ClientConfig["ssl"]> {
  if (protection === "plain") return false;
  const read = async (path: string | undefined): Promise<string | undefined> => {
    if (path === undefined || path === "system") return undefined;
    try {
      return await readFile(path, "utf8");
    } catch (cause) {
      throw new HoldfastError("invalid_argument", `the file ${path} of the store's address cannot be read`, {
        cause,
      });
    }
  };
  const [ca, cert, key] = [
    await read(address.rootCertFile),
    await read(address.certFile),
    await read(address.keyFile),
  ];
  return {
    rejectUnauthorized: protection !== "encrypted",
    // No name is sent for an address; what is checked is the address then.
    ...(isIP(host) === 0 ? { servername: host } : { host }),
    ...(protection === "verify-ca" ? { checkServerIdentity: () => undefined } : {}),
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
  };
}

function parserOf(oid: number): (text: string) => unknown {
  if (oid === INT8 || oid === 23) return Number;
  if (oid === 16) return (shown) => shown === "t";
  // Plain bytes: a Buffer would be another type, and may be a view of a pool.
  return oid === BYTEA ? (hex) => new Uint8Array(Buffer.from(hex.slice(2), "hex")) : (shown) => shown;
}

export function number(row: Row, column: string): number {
  const value = row[column];
  assert(typeof value === "number", `${column} is a number`);
  return value;
}

export function text(row: Row, column: string): string {
  const value = row[column];
  assert(typeof value === "string", `${column} is text`);
  return value;
}

export function flag(row: Row, column: string): boolean {
  const value = row[column];
  assert(typeof value === "boolean", `${column} is true or false`);
  return value;
}

export function bytes(row: Row, column: string): Uint8Array {
  const value = row[column];
  assert(value instanceof Uint8Array, `${column} is bytes`);
  return value;
}

/** Reads a column that may be NULL. */
export function optional<T>(row: Row, column: string, read: (row: Row, column: string) => T): T | undefined {
  return row[column] === null ? undefined : read(row, column);
}
