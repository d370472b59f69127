/**
 * What a command works with: flags win over the environment, which wins over the config file, which
 * wins over the defaults. Checked once, here, so that the rest of a command can rely on it.
 */
import { resolve } from "node:path";
import type { ModelsConfig, ProviderConfig } from "../agent/models/index.ts";
import { DEFAULTS as RETENTION } from "../core/retention.ts";
import { GATEWAY_LIMITS } from "../gateway/options.ts";
import { DEFAULTS as STORE_LIFE } from "../core/store-life.ts";
import type { ToolsConfig } from "../tools/config.ts";
import {
  checkOrigin,
  isLogLevel,
  LOG_LEVELS,
  type LogLevel,
  readConfigFile,
  type Settings,
} from "./config-file.ts";
import { API_KEY_CHARS_MIN, isApiKey, SERVE_DEFAULTS } from "../node/serve-options.ts";
import { defaultDataDir } from "../node/data-dir.ts";
import { usageError } from "../node/failures.ts";
import { present } from "./field-check.ts";
import type { Surroundings } from "./terminal.ts";

/** As commander hands them over: texts that nobody has checked. */
export interface Flags {
  readonly host?: string;
  readonly port?: string;
  readonly dataDir?: string;
  readonly config?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly allowHost?: readonly string[];
  readonly allowOrigin?: readonly string[];
  readonly logLevel?: string;
  readonly exitWhenIdle?: string;
  readonly upstreamServer?: string;
  readonly workspace?: string;
  readonly openStreams?: string;
}

export interface ResolvedSettings {
  readonly host: string;
  readonly port: number;
  readonly dataDir: string;
  readonly tls: { readonly cert: string; readonly key: string } | undefined;
  readonly allowHosts: readonly string[];
  readonly allowOrigins: readonly string[];
  readonly logLevel: LogLevel;
  readonly retentionMs: number;
  readonly storePauseMs: number;
  readonly providers: Readonly<Record<string, ProviderConfig>>;
  readonly models: ModelsConfig;
  /** Undefined = the defaults. */
  readonly tools: ToolsConfig | undefined;
  /** A server that somebody started on the side ends when nobody needs it; undefined = it stays. */
  readonly exitWhenIdleMs: number | undefined;
  /** Where the gateway's streams are, when not here. */
  readonly upstreamServer: string | undefined;
  /** What the gateway's agent may look into. */
  readonly workspace: string | undefined;
  /** How many streams of one principal the gateway has open at most. */
  readonly openStreams: number;
  /** From the environment only: flags are seen by everybody on the machine, files are copied. */
  readonly apiKey: string | undefined;
}

export const DEFAULT_HOST = SERVE_DEFAULTS.host;
export const DEFAULT_PORT = SERVE_DEFAULTS.port;
/** Requests are not news to whoever sits in front of it; what needs attention is. */
export const DEFAULT_LOG_LEVEL: LogLevel = "warn";

export interface ResolveOptions {
  /**
   * A config file counts only if it was named. Where an agent works on files that came from elsewhere, one that lies among
   * them is one of them: it could start programs and allow tools.
   */
  readonly isNamedOnly?: boolean;
}

export function resolveSettings(
  flags: Flags,
  surroundings: Surroundings,
  { isNamedOnly = false }: ResolveOptions = {},
): ResolvedSettings {
  const { cwd, env } = surroundings;
  const file = isNamedOnly && flags.config === undefined ? {} : readConfigFile(flags.config, cwd);
  const said: Settings = { ...file, ...fromEnvironment(env, cwd), ...fromFlags(flags, cwd) };
  return {
    host: said.host ?? DEFAULT_HOST,
    port: said.port ?? DEFAULT_PORT,
    dataDir: said.dataDir ?? defaultDataDir(surroundings),
    tls: said.tls,
    allowHosts: said.allowHosts ?? [],
    allowOrigins: said.allowOrigins ?? [],
    logLevel: said.logLevel ?? DEFAULT_LOG_LEVEL,
    retentionMs: said.retentionMs ?? RETENTION.retentionMs,
    storePauseMs: said.storePauseMs ?? STORE_LIFE.pauseMs,
    upstreamServer: flags.upstreamServer === undefined ? undefined : serverUrl(flags.upstreamServer),
    workspace: flags.workspace === undefined ? undefined : resolve(cwd, flags.workspace),
    openStreams:
      flags.openStreams === undefined ? GATEWAY_LIMITS.openStreamsMax : streamsOf(flags.openStreams),
    exitWhenIdleMs: flags.exitWhenIdle === undefined ? undefined : secondsOf(flags.exitWhenIdle),
    providers: said.providers ?? {},
    models: said.models ?? {},
    tools: said.tools,
    apiKey: environmentKey(env),
  };
}

/** More than the port takes sockets would promise what cannot be had. */
const OPEN_STREAMS_MAX = 20_000;

function streamsOf(text: string): number {
  const count = /^[1-9]\d{0,4}$/.test(text) ? Number(text) : Number.NaN;
  if (count <= OPEN_STREAMS_MAX) return count;
  throw usageError(`--open-streams is a whole number from 1 to ${OPEN_STREAMS_MAX}, not "${text}"`);
}

function secondsOf(text: string): number {
  const seconds = /^\d{1,7}(?:\.\d{1,3})?$/.test(text) ? Number(text) : Number.NaN;
  if (seconds > 0) return seconds * 1_000;
  throw usageError(`--exit-when-idle is a number of seconds above 0, not "${text}"`);
}

function fromEnvironment(env: Surroundings["env"], cwd: string): Settings {
  const port = setVariable(env, "HOLDFAST_PORT");
  const dataDir = setVariable(env, "HOLDFAST_DATA_DIR");
  return present({
    host: setVariable(env, "HOLDFAST_HOST"),
    port: port === undefined ? undefined : portOf(port, "HOLDFAST_PORT"),
    dataDir: dataDir === undefined ? undefined : resolve(cwd, dataDir),
  });
}

function fromFlags(flags: Flags, cwd: string): Settings {
  const { tlsCert, tlsKey, logLevel } = flags;
  if ((tlsCert === undefined) !== (tlsKey === undefined)) {
    throw usageError("--tls-cert and --tls-key are given together or not at all");
  }
  if (logLevel !== undefined && !isLogLevel(logLevel)) {
    throw usageError(`--log-level is one of ${LOG_LEVELS.join(", ")}, not "${logLevel}"`);
  }
  for (const origin of flags.allowOrigin ?? []) {
    const why = checkOrigin(origin);
    if (why !== undefined) throw usageError(`--allow-origin ${why}`);
  }
  const hasTls = tlsCert !== undefined && tlsKey !== undefined;
  return present({
    host: flags.host,
    port: flags.port === undefined ? undefined : portOf(flags.port, "--port"),
    dataDir: flags.dataDir === undefined ? undefined : resolve(cwd, flags.dataDir),
    tls: hasTls ? { cert: resolve(cwd, tlsCert), key: resolve(cwd, tlsKey) } : undefined,
    allowHosts: flags.allowHost,
    allowOrigins: flags.allowOrigin,
    logLevel,
  });
}

/** An empty variable is one that is not set: that is how shells and compose files switch them off. */
function setVariable(env: Surroundings["env"], name: string): string | undefined {
  const value = env[name];
  return value === "" ? undefined : value;
}

function portOf(text: string, where: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN;
  if (port <= 65_535) return port;
  throw usageError(`${where} is a whole number from 0 to 65535, not "${text}"`);
}

function environmentKey(env: Surroundings["env"]): string | undefined {
  const key = setVariable(env, "HOLDFAST_API_KEY");
  if (key === undefined) return undefined;
  if (!isApiKey(key)) {
    throw usageError(
      `HOLDFAST_API_KEY has at least ${API_KEY_CHARS_MIN} visible ASCII characters; make one with \`openssl rand -base64 32\``,
    );
  }
  return key;
}

function serverUrl(text: string): string {
  const url = URL.parse(text);
  if (url !== null && (url.protocol === "http:" || url.protocol === "https:")) return url.origin;
  throw usageError(
    `--upstream-server is the URL of a Holdfast server, such as http://10.0.0.5:4600, not "${text}"`,
  );
}
