/**
 * `holdfast.config.json`: what it may say, checked field by field.
 *
 * A field that nobody knows is refused, not ignored: a mistyped `alowOrigins` that does nothing would
 * look like a setting that is on. Every message names the file and the field.
 */
import { dirname, resolve } from "node:path";
import { readFileIfThere } from "./data-dir.ts";
import { usageError } from "./failures.ts";

export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** The file's fields; also the part of the settings that flags and the environment can give. */
export interface Settings {
  readonly host?: string;
  readonly port?: number;
  readonly dataDir?: string;
  readonly tls?: TlsFiles;
  /** Names besides its own under which the server may be asked (E7). */
  readonly allowHosts?: readonly string[];
  /** Web pages' origins that may ask (E7). */
  readonly allowOrigins?: readonly string[];
  readonly logLevel?: LogLevel;
  /** How long a stream stays after its last activity. */
  readonly retentionMs?: number;
}

export interface TlsFiles {
  /** PEM files. */
  readonly cert: string;
  readonly key: string;
}

export const CONFIG_FILE = "holdfast.config.json";

const FIELDS = [
  "host",
  "port",
  "dataDir",
  "tls",
  "allowHosts",
  "allowOrigins",
  "logLevel",
  "retentionMs",
] as const;
const RETENTION_MS_MIN = 60_000;

/** `named` must be there; without it the working directory is looked at. Paths in it are relative to it. */
export function readConfigFile(named: string | undefined, cwd: string): Settings {
  const path = resolve(cwd, named ?? CONFIG_FILE);
  const text = readFileIfThere(path);
  if (text !== undefined) return parseConfig(text, path);
  if (named !== undefined) throw usageError(`there is no config file ${path}`);
  return {};
}

export function parseConfig(text: string, path: string): Settings {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw usageError(`${path} is not JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
  const check = new FieldCheck(path);
  const fields = check.object(json, "", FIELDS);
  const tls = fields["tls"] === undefined ? undefined : check.object(fields["tls"], "tls", ["cert", "key"]);
  const settings = {
    host: check.text(fields["host"], "host"),
    port: check.whole(fields["port"], "port", 0, 65_535),
    dataDir: check.path(fields["dataDir"], "dataDir"),
    tls: tls === undefined ? undefined : check.tls(tls),
    allowHosts: check.texts(fields["allowHosts"], "allowHosts"),
    allowOrigins: check.texts(fields["allowOrigins"], "allowOrigins", checkOrigin),
    logLevel: check.logLevel(fields["logLevel"]),
    retentionMs: check.whole(fields["retentionMs"], "retentionMs", RETENTION_MS_MIN, Number.MAX_SAFE_INTEGER),
  };
  return present(settings);
}

type Said<Fields> = { readonly [Name in keyof Fields]?: Exclude<Fields[Name], undefined> };

/** Without the fields that are undefined, so that laying one over another takes only what was said. */
export function present<Fields extends object>(fields: Fields): Said<Fields>;
export function present(fields: object): object {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

export function isLogLevel(text: string): text is LogLevel {
  return LOG_LEVELS.some((level) => level === text);
}

/** Why a text is no origin, or undefined. */
export function checkOrigin(text: string): string | undefined {
  const isOrigin = URL.canParse(text) && new URL(text).origin === text && text !== "null";
  return isOrigin
    ? undefined
    : `is an origin such as "https://app.example.com", without a path, not "${text}"`;
}

class FieldCheck {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  object(value: unknown, name: string, known: readonly string[]): Readonly<Record<string, unknown>> {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw this.#wrong(name === "" ? undefined : name, "is an object");
    }
    for (const field of Object.keys(value)) {
      if (!known.includes(field)) throw this.#unknown(name === "" ? field : `${name}.${field}`, field, known);
    }
    return { ...value };
  }

  text(value: unknown, name: string): string | undefined {
    if (value === undefined) return undefined;
    if (typeof value !== "string" || value === "") throw this.#wrong(name, "is text, and not empty");
    return value;
  }

  path(value: unknown, name: string): string | undefined {
    const text = this.text(value, name);
    return text === undefined ? undefined : resolve(dirname(this.#path), text);
  }

  whole(value: unknown, name: string, min: number, max: number): number | undefined {
    if (value === undefined) return undefined;
    if (typeof value !== "number" || !Number.isSafeInteger(value) || value < min || value > max) {
      throw this.#wrong(name, `is a whole number from ${min} to ${max}`);
    }
    return value;
  }

  texts(
    value: unknown,
    name: string,
    objection: (text: string) => string | undefined = () => undefined,
  ): readonly string[] | undefined {
    if (value === undefined) return undefined;
    if (!Array.isArray(value)) throw this.#wrong(name, "is a list of texts");
    return value.map((item: unknown, at) => {
      const text = this.text(item, `${name}[${at}]`);
      if (text === undefined) throw this.#wrong(`${name}[${at}]`, "is text, and not empty");
      const why = objection(text);
      if (why !== undefined) throw this.#wrong(`${name}[${at}]`, why);
      return text;
    });
  }

  tls(fields: Readonly<Record<string, unknown>>): TlsFiles {
    const cert = this.path(fields["cert"], "tls.cert");
    const key = this.path(fields["key"], "tls.key");
    if (cert === undefined) throw this.#wrong("tls.cert", "is missing: the path of a PEM file");
    if (key === undefined) throw this.#wrong("tls.key", "is missing: the path of a PEM file");
    return { cert, key };
  }

  logLevel(value: unknown): LogLevel | undefined {
    const text = this.text(value, "logLevel");
    if (text === undefined || isLogLevel(text)) return text;
    throw this.#wrong("logLevel", `is one of ${LOG_LEVELS.join(", ")}`);
  }

  #wrong(name: string | undefined, what: string): Error {
    return usageError(`${this.#path}: ${name === undefined ? "the whole file" : `"${name}"`} ${what}`);
  }

  #unknown(name: string, field: string, known: readonly string[]): Error {
    if (/^api[-_]?key$/i.test(field)) {
      return usageError(
        `${this.#path}: "${name}" does not belong in a file; set HOLDFAST_API_KEY, or run \`holdfast keys create\``,
      );
    }
    const near = nearest(field, known);
    const hint = near === undefined ? `known are ${known.join(", ")}` : `did you mean "${near}"?`;
    return usageError(`${this.#path}: "${name}" is not known; ${hint}`);
  }
}

/** The known name that was probably meant. */
function nearest(name: string, known: readonly string[]): string | undefined {
  const ranked = known
    .map((candidate) => ({ candidate, edits: editsBetween(name.toLowerCase(), candidate.toLowerCase()) }))
    .toSorted((a, b) => a.edits - b.edits);
  const best = ranked[0];
  return best !== undefined && best.edits <= Math.max(2, name.length / 3) ? best.candidate : undefined;
}

/** Levenshtein's distance. */
function editsBetween(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (const [at, letter] of a.split("").entries()) {
    const next = [at + 1];
    for (const [other, otherLetter] of b.split("").entries()) {
      const replaced = (row[other] ?? 0) + (letter === otherLetter ? 0 : 1);
      next.push(Math.min(replaced, (row[other + 1] ?? 0) + 1, (next[other] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
