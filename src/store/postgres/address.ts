/**
 * What a `postgres://` address means, as libpq's users expect: the address first, then `PG...` variables, then libpq's defaults.
 *
 * Several hosts are tried in order; the one that is a primary is used. A password comes from the address, from `PGPASSWORD`, or from a
 * password file. Nothing here touches the network.
 *
 * Invariant: no text made here holds a password (E4); `shown` is what logs may say.
 */
import { HoldfastError } from "../../protocol/errors.ts";

export type Variables = Readonly<Record<string, string | undefined>>;

/** How the connection is protected. `plain` has no TLS; the others say what is verified of the server. */
export type Protection = "plain" | "encrypted" | "verify-ca" | "verify-full";

export interface HostPort {
  /** A name, an address, or the directory of a Unix socket. */
  readonly host: string;
  readonly port: number;
}

export interface Address {
  readonly hosts: readonly HostPort[];
  readonly user: string;
  readonly database: string;
  readonly password: string | undefined;
  /** Where a password is looked up when none is given. */
  readonly passfile: string;
  /** Tried in order: `prefer` connects without TLS where the server has none. */
  readonly protections: readonly Protection[];
  readonly rootCertFile: string | undefined;
  readonly certFile: string | undefined;
  readonly keyFile: string | undefined;
  readonly connectTimeoutMs: number;
}

const DEFAULT_PORT = 5432;
const CONNECT_TIMEOUT_S = 10;

const PROTECTIONS: Readonly<Record<string, readonly Protection[]>> = {
  disable: ["plain"],
  allow: ["plain", "encrypted"],
  prefer: ["encrypted", "plain"],
  require: ["encrypted"],
  "verify-ca": ["verify-ca"],
  "verify-full": ["verify-full"],
};

/** Every parameter that an address may have, and the variable that stands in for it. */
const PARAMETERS: Readonly<Record<string, string | undefined>> = {
  host: "PGHOST",
  port: "PGPORT",
  user: "PGUSER",
  password: "PGPASSWORD",
  dbname: "PGDATABASE",
  passfile: "PGPASSFILE",
  sslmode: "PGSSLMODE",
  sslrootcert: "PGSSLROOTCERT",
  sslcert: "PGSSLCERT",
  sslkey: "PGSSLKEY",
  connect_timeout: "PGCONNECT_TIMEOUT",
  // Only a primary is ever used, whatever this says.
  target_session_attrs: undefined,
};

const SHAPE =
  /^postgres(?:ql)?:\/\/(?:(?<user>[^:@/?]*)(?::(?<password>[^@/?]*))?@)?(?<hosts>[^/?]*)(?:\/(?<database>[^?]*))?(?:\?(?<query>.*))?$/;

export function isPostgresAddress(text: string): boolean {
  return /^postgres(?:ql)?:\/\//.test(text);
}

export function parseAddress(text: string, variables: Variables, home: string): Address {
  const parts = SHAPE.exec(text)?.groups;
  // The text is not repeated: it may hold a password.
  if (parts === undefined) throw refused("it must look like postgres://user@host:5432/database");
  const parameters = new Map(new URLSearchParams(parts["query"] ?? ""));
  for (const name of parameters.keys()) {
    if (!(name in PARAMETERS)) throw refused(`it has the unknown parameter "${name}"`);
  }
  const given = (name: string, inPlace?: string): string | undefined => {
    const variable = PARAMETERS[name];
    return (
      filled(parameters.get(name)) ??
      filled(inPlace === undefined ? undefined : decoded(inPlace)) ??
      filled(variable === undefined ? undefined : variables[variable])
    );
  };
  const user = given("user", parts["user"]) ?? filled(variables["USER"]) ?? "postgres";
  const sslmode = given("sslmode") ?? "prefer";
  const protections = PROTECTIONS[sslmode];
  if (protections === undefined) throw refused(`its sslmode "${sslmode}" is none that libpq knows`);
  const rootCertFile = given("sslrootcert");
  if (sslmode === "verify-ca" && rootCertFile === undefined) {
    throw refused("sslmode=verify-ca needs sslrootcert, the file of the authority that is trusted");
  }
  const hosts = hostsOf(given("host", parts["hosts"]) ?? "localhost", given("port"));
  const isSocket = hosts.every(({ host }) => host.startsWith("/"));
  return {
    hosts,
    user,
    database: given("dbname", parts["database"]) ?? user,
    password: given("password", parts["password"]),
    passfile: given("passfile") ?? `${home}/.pgpass`,
    // As libpq does: a root certificate that is there is used.
    protections: isSocket
      ? ["plain"]
      : sslmode === "require" && rootCertFile !== undefined
        ? ["verify-ca"]
        : protections,
    rootCertFile,
    certFile: given("sslcert"),
    keyFile: given("sslkey"),
    connectTimeoutMs: 1_000 * wholeOf(given("connect_timeout"), CONNECT_TIMEOUT_S, "connect_timeout"),
  };
}

/** For people and logs: where it is, and nothing secret. */
export function shown({ hosts, database }: Pick<Address, "hosts" | "database">): string {
  const places = hosts.map(({ host, port }) => `${host}:${port}`).join(",");
  return `postgres://${places}/${database}`;
}

/** The password that a password file has for this connection: `host:port:database:user:password` per line, `*` fits everything. */
export function passwordIn(
  text: string,
  { host, port }: HostPort,
  { database, user }: Pick<Address, "database" | "user">,
): string | undefined {
  const wanted = [host.startsWith("/") ? "localhost" : host, String(port), database, user];
  for (const line of text.split(/\r?\n/)) {
    if (line.startsWith("#")) continue;
    const fields = fieldsOf(line);
    if (fields.length !== 5) continue;
    if (wanted.every((value, at) => fields[at] === "*" || fields[at] === value)) return fields[4];
  }
  return undefined;
}

/** A backslash keeps a colon or a backslash from its meaning. */
function fieldsOf(line: string): readonly string[] {
  const fields = [""];
  for (let at = 0; at < line.length; at++) {
    const char = line.charAt(at);
    if (char === ":") fields.push("");
    else fields[fields.length - 1] += char === "\\" ? line.charAt(++at) : char;
  }
  return fields;
}

const HOST = /^(?:\[(?<six>[^\]]*)\]|(?<name>[^:]*))(?::(?<port>\d+))?$/;

function hostsOf(text: string, ports: string | undefined): readonly HostPort[] {
  const given = ports?.split(",") ?? [];
  return text.split(",").map((part, at) => {
    const groups = part.startsWith("/") ? { name: part } : HOST.exec(part)?.groups;
    if (groups === undefined) throw refused("one of its hosts is no name:port");
    const { six, name, port }: Readonly<Record<string, string | undefined>> = groups;
    return {
      host: filled(six ?? name) ?? "localhost",
      port: wholeOf(port ?? given[at] ?? given[0], DEFAULT_PORT, "port"),
    };
  });
}

function wholeOf(text: string | undefined, byDefault: number, what: string): number {
  if (text === undefined) return byDefault;
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 1 || number > 65_535)
    throw refused(`its ${what} is no number`);
  return number;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw refused("it has a % that begins no %XX");
  }
}

function filled(text: string | undefined): string | undefined {
  return text === "" ? undefined : text;
}

function refused(why: string): HoldfastError {
  return new HoldfastError("invalid_argument", `the address of the store cannot be used: ${why}`);
}
