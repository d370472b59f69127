/**
 * `holdfast.config.json`: what it may say.
 *
 * A field that it does not have is refused, not ignored: a mistyped `alowOrigins` that does nothing would
 * look like a setting that is on. Every message names the file and the field.
 */
import { dirname, resolve } from "node:path";
import * as z from "../protocol/rules.ts";
import { checked, fields, inFile, list, oneOf, text, textThat, whole, yesOrNo } from "../protocol/checked.ts";
import { messageOf } from "../protocol/errors.ts";
import { given } from "../protocol/given.ts";
import { TOKENS_MAX } from "../server/api-key-limits.ts";
import { TOOLS } from "../tools/config.ts";
import { readFileIfThere } from "../node/data-dir.ts";
import { usageError } from "../node/failures.ts";
import { storeAddress } from "../node/serve-options.ts";
import { isApiKey, MODELS, PROVIDERS } from "./model-config.ts";

export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export const CONFIG_FILE = "holdfast.config.json";

const RETENTION_MS_MIN = 60_000;
/** Less would be no pause, more would be no recovery. */
const STORE_PAUSE_MS = { min: 10, max: 600_000 } as const;

/** Below, no tool has the time to run; above, streams would end before their sessions, by `retentionMs` as it is by default. */
const SESSION_TTL_MS = { min: 1_000, max: 7_200_000 } as const;

const STORE_PATIENCE_MS = { min: 100, max: 600_000 } as const;
/** Below, a busy machine loses its streams; above, no client waits so long for a dead one. */
const LEASE_MS = { min: 1_000, max: 60_000 } as const;

const port = whole(0, 65_535);
export const origin = textThat(
  (said) => URL.canParse(said) && new URL(said).origin === said && said !== "null",
  'must be an origin such as "https://app.example.com", without a path',
);
const pemFile = text("must be the path of a PEM file");

const CONFIG = fields(
  {
    host: z.exactOptional(text()),
    port: z.exactOptional(port),
    dataDir: z.exactOptional(text()),
    /** A PostgreSQL where streams are kept instead of in the data directory. */
    store: z.exactOptional(storeAddress()),
    tls: z.exactOptional(fields({ cert: pemFile, key: pemFile })),
    /** Names besides its own under which the server may be asked (E7). */
    allowHosts: z.exactOptional(list(text())),
    /** Web pages' origins that may ask (E7). */
    allowOrigins: z.exactOptional(list(origin)),
    logLevel: z.exactOptional(oneOf(LOG_LEVELS)),
    /** How long a stream stays after its last activity. */
    retentionMs: z.exactOptional(whole(RETENTION_MS_MIN)),
    /** Of an API key that has no such limit of its own. */
    tokensPerDay: z.exactOptional(whole(1, TOKENS_MAX)),
    /** How long a response can be asked for by its id. */
    responseTtlMs: z.exactOptional(whole(RETENTION_MS_MIN)),
    /** How long a turn of the gateway waits for the results of its tools. */
    sessionTtlMs: z.exactOptional(whole(SESSION_TTL_MS.min, SESSION_TTL_MS.max)),
    /** How long after a failure of the store it is opened anew; each further pause is three times as long. */
    storePauseMs: z.exactOptional(whole(STORE_PAUSE_MS.min, STORE_PAUSE_MS.max)),
    /** For how long a PostgreSQL that is away is waited for before the store counts as failed. */
    storePatienceMs: z.exactOptional(whole(STORE_PATIENCE_MS.min, STORE_PATIENCE_MS.max)),
    leaseMs: z.exactOptional(whole(LEASE_MS.min, LEASE_MS.max)),
    /** Who serves models, by the name that model ids begin with. */
    providers: z.exactOptional(PROVIDERS),
    models: z.exactOptional(MODELS),
    /** The client's switches: for `holdfast chat`, which reads them anew for each turn. */
    reliable: z.exactOptional(yesOrNo()),
    persistence: z.exactOptional(yesOrNo()),
    retryLookbackWindowMs: z.exactOptional(whole(0)),
    /** What tools may do on this machine: for `holdfast chat`. */
    tools: z.exactOptional(TOOLS),
  },
  (name) =>
    isApiKey(name)
      ? "does not belong in a file; set HOLDFAST_API_KEY, or run `holdfast keys create`"
      : undefined,
);

/** The file's fields; also the part of the settings that flags and the environment can give. */
export type Settings = z.output<typeof CONFIG>;

/** `named` must be there; without it the working directory is looked at. Paths in it are relative to it. */
export function readConfigFile(named: string | undefined, cwd: string): Settings {
  const path = resolve(cwd, named ?? CONFIG_FILE);
  const said = readFileIfThere(path);
  if (said !== undefined) return parseConfig(said, path);
  if (named !== undefined) throw usageError(`there is no config file ${path}`);
  return {};
}

export function parseConfig(json: string, path: string): Settings {
  const settings = checked(CONFIG, parsed(json, path), inFile(path));
  const from = (file: string): string => resolve(dirname(path), file);
  const { dataDir, tls } = settings;
  return {
    ...settings,
    ...given({
      dataDir: dataDir && from(dataDir),
      tls: tls && { cert: from(tls.cert), key: from(tls.key) },
    }),
  };
}

function parsed(json: string, path: string): unknown {
  try {
    return JSON.parse(json);
  } catch (error) {
    throw usageError(`${path} is not JSON: ${messageOf(error)}`);
  }
}
