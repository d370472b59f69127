/**
 * `holdfast.config.json`: what it may say, checked field by field.
 *
 * A field that nobody knows is refused, not ignored: a mistyped `alowOrigins` that does nothing would
 * look like a setting that is on. Every message names the file and the field.
 */
import { resolve } from "node:path";
import type { ModelsConfig, ProviderConfig } from "../agent/models/index.ts";
import { parseToolsConfig, type ToolsConfig } from "../tools/config.ts";
import { readFileIfThere } from "../node/data-dir.ts";
import { usageError } from "../node/failures.ts";
import { FieldCheck, present } from "./field-check.ts";
import { readModels, readProviders } from "./model-config.ts";

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
  /** How long after a failure of the store it is opened anew; each further pause is three times as long. */
  readonly storePauseMs?: number;
  /** Who serves models, by the name that model ids begin with. */
  readonly providers?: Readonly<Record<string, ProviderConfig>>;
  readonly models?: ModelsConfig;
  /** The client's switches: for `holdfast chat`, which reads them anew for each turn. */
  readonly reliable?: boolean;
  readonly persistence?: boolean;
  readonly retryLookbackWindowMs?: number;
  /** What tools may do on this machine: for `holdfast chat`. */
  readonly tools?: ToolsConfig;
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
  "storePauseMs",
  "providers",
  "models",
  "reliable",
  "persistence",
  "retryLookbackWindowMs",
  "tools",
] as const;
const RETENTION_MS_MIN = 60_000;
/** Less would be no pause, more would be no recovery. */
const STORE_PAUSE_MS = { min: 10, max: 600_000 } as const;

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
    tls: tls === undefined ? undefined : tlsFiles(check, tls),
    allowHosts: check.texts(fields["allowHosts"], "allowHosts"),
    allowOrigins: check.texts(fields["allowOrigins"], "allowOrigins", checkOrigin),
    logLevel: readLogLevel(check, fields["logLevel"]),
    retentionMs: check.whole(fields["retentionMs"], "retentionMs", RETENTION_MS_MIN, Number.MAX_SAFE_INTEGER),
    storePauseMs: check.whole(fields["storePauseMs"], "storePauseMs", STORE_PAUSE_MS.min, STORE_PAUSE_MS.max),
    providers: readProviders(check, fields["providers"]),
    models: readModels(check, fields["models"]),
    reliable: check.yesOrNo(fields["reliable"], "reliable"),
    persistence: check.yesOrNo(fields["persistence"], "persistence"),
    retryLookbackWindowMs: check.whole(
      fields["retryLookbackWindowMs"],
      "retryLookbackWindowMs",
      0,
      Number.MAX_SAFE_INTEGER,
    ),
    tools: fields["tools"] === undefined ? undefined : readTools(fields["tools"], path),
  };
  return present(settings);
}

function readTools(value: unknown, path: string): ToolsConfig {
  try {
    return parseToolsConfig(value, "tools");
  } catch (error) {
    throw usageError(`${path}: ${error instanceof Error ? error.message : String(error)}`);
  }
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

function tlsFiles(check: FieldCheck, fields: Readonly<Record<string, unknown>>): TlsFiles {
  const cert = check.path(fields["cert"], "tls.cert");
  const key = check.path(fields["key"], "tls.key");
  if (cert === undefined) throw check.wrong("tls.cert", "is missing: the path of a PEM file");
  if (key === undefined) throw check.wrong("tls.key", "is missing: the path of a PEM file");
  return { cert, key };
}

function readLogLevel(check: FieldCheck, value: unknown): LogLevel | undefined {
  const text = check.text(value, "logLevel");
  if (text === undefined || isLogLevel(text)) return text;
  throw check.wrong("logLevel", `is one of ${LOG_LEVELS.join(", ")}`);
}
