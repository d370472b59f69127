/**
 * What a command works with: flags win over the environment, which wins over the config file, which
 * wins over the defaults. Checked once, here, so that the rest of a command can rely on it.
 */
import { resolve } from "node:path";
import * as z from "../protocol/rules.ts";
import {
  asFlag,
  checked,
  custom,
  httpUrl,
  list,
  oneOf,
  secretThat,
  text,
  variable,
  wholeText,
} from "../protocol/checked.ts";
import { LOG_LEVELS, type LogLevel, origin, readConfigFile, type Settings } from "./config-file.ts";
import { API_KEY_CHARS_MIN, isApiKey, SERVE_DEFAULTS, storeAddress } from "../node/serve-options.ts";
import { defaultDataDir } from "../node/data-dir.ts";
import { usageError } from "../node/failures.ts";
import { given } from "../protocol/given.ts";
import type { Surroundings } from "./terminal.ts";

/** Requests are not news to the person in front of it; what needs attention is. */
export const DEFAULT_LOG_LEVEL: LogLevel = "warn";

interface ResolveOptions {
  /**
   * A config file counts only if it was named. Where an agent works on files that came from elsewhere, one that lies among
   * them is one of them: it could start programs and allow tools.
   */
  readonly isNamedOnly?: boolean;
}

/** More than the port takes sockets would promise what cannot be had. */
const OPEN_STREAMS_MAX = 20_000;

/** A server that takes longer to stop is killed by whatever stops it. */
const DRAIN_MS_MAX = 600_000;

const seconds = custom<string>(
  (said) => typeof said === "string" && /^\d{1,7}(?:\.\d{1,3})?$/.test(said) && Number(said) > 0,
  "must be a number of seconds above 0",
);

const FLAGS = z.object({
  host: z.optional(text()),
  port: z.optional(wholeText(0, 65_535)),
  dataDir: z.optional(text()),
  store: z.optional(storeAddress()),
  config: z.optional(text()),
  tlsCert: z.optional(text()),
  tlsKey: z.optional(text()),
  allowHost: z.optional(list(text())),
  allowOrigin: z.optional(list(origin)),
  logLevel: z.optional(oneOf(LOG_LEVELS)),
  exitWhenIdle: z.optional(seconds),
  upstreamServer: z.optional(httpUrl(": its API key belongs in HOLDFAST_UPSTREAM_API_KEY")),
  workspace: z.optional(text()),
  openStreams: z.optional(wholeText(1, OPEN_STREAMS_MAX)),
  line: z.optional(z.boolean()),
  drainMs: z.optional(wholeText(0, DRAIN_MS_MAX)),
});

/** As commander hands them over: not checked yet. */
export type Flags = { readonly [Name in keyof z.input<typeof FLAGS>]?: unknown };

/** What every command on a data directory takes. */
export interface DataFlags extends Pick<Flags, "dataDir" | "config"> {
  readonly json?: boolean;
}

const VARIABLES = z.object({
  HOLDFAST_HOST: variable(text()),
  HOLDFAST_PORT: variable(wholeText(0, 65_535)),
  HOLDFAST_DATA_DIR: variable(text()),
  HOLDFAST_STORE: variable(storeAddress()),
  HOLDFAST_API_KEY: variable(
    secretThat(
      isApiKey,
      `must have at least ${API_KEY_CHARS_MIN} visible ASCII characters; make one with \`openssl rand -base64 32\``,
    ),
  ),
});

export type ResolvedSettings = Readonly<ReturnType<typeof resolveSettings>>;

export function resolveSettings(
  flags: Flags,
  surroundings: Surroundings,
  { isNamedOnly = false }: ResolveOptions = {},
) {
  const { cwd, env } = surroundings;
  const flagged = checked(FLAGS, flags, asFlag);
  const variables = checked(VARIABLES, env);
  const file = isNamedOnly && flagged.config === undefined ? {} : readConfigFile(flagged.config, cwd);
  const said: Settings = { ...file, ...fromEnvironment(variables, cwd), ...fromFlags(flagged, cwd) };
  const { upstreamServer, workspace, openStreams, exitWhenIdle, line, drainMs } = flagged;
  return {
    host: said.host ?? SERVE_DEFAULTS.host,
    port: said.port ?? SERVE_DEFAULTS.port,
    dataDir: said.dataDir ?? defaultDataDir(surroundings),
    /** Where streams are kept; undefined = in the data directory. May hold a password: never printed. */
    store: said.store,
    tls: said.tls,
    allowHosts: said.allowHosts ?? [],
    allowOrigins: said.allowOrigins ?? [],
    logLevel: said.logLevel ?? DEFAULT_LOG_LEVEL,
    retentionMs: said.retentionMs ?? SERVE_DEFAULTS.retentionMs,
    /** Undefined = any number. */
    tokensPerDay: said.tokensPerDay,
    responseTtlMs: said.responseTtlMs ?? SERVE_DEFAULTS.responseTtlMs,
    sessionTtlMs: said.sessionTtlMs ?? SERVE_DEFAULTS.sessionTtlMs,
    storePauseMs: said.storePauseMs ?? SERVE_DEFAULTS.storePauseMs,
    storePatienceMs: said.storePatienceMs ?? SERVE_DEFAULTS.storePatienceMs,
    leaseMs: said.leaseMs ?? SERVE_DEFAULTS.leaseMs,
    /** Where the gateway's streams are, when not here. */
    upstreamServer: upstreamServer === undefined ? undefined : new URL(upstreamServer).origin,
    /** What the gateway's agent may look into. */
    workspace: workspace === undefined ? undefined : resolve(cwd, workspace),
    /** How many streams of one principal the gateway has open at most. */
    openStreams: openStreams ?? SERVE_DEFAULTS.openStreamsMax,
    /** A server that was started on the side ends when no program needs it; undefined = it stays. */
    exitWhenIdleMs: exitWhenIdle === undefined ? undefined : Number(exitWhenIdle) * 1_000,
    /** Model calls outlive the server. */
    line: line ?? true,
    /** How long model calls under way may continue when the server stops. */
    drainMs: drainMs ?? SERVE_DEFAULTS.drainMs,
    providers: said.providers ?? {},
    models: said.models ?? {},
    /** Undefined = the defaults. */
    tools: said.tools,
    /** From the environment only: every user of the machine sees flags, and files are copied. */
    apiKey: variables.HOLDFAST_API_KEY,
  };
}

function fromEnvironment(variables: z.output<typeof VARIABLES>, cwd: string): Settings {
  const { HOLDFAST_HOST: host, HOLDFAST_PORT: port, HOLDFAST_DATA_DIR: dataDir } = variables;
  const { HOLDFAST_STORE: store } = variables;
  return given({ host, port, store, dataDir: dataDir === undefined ? undefined : resolve(cwd, dataDir) });
}

function fromFlags(flagged: z.output<typeof FLAGS>, cwd: string): Settings {
  const { host, port, store, dataDir, tlsCert, tlsKey, allowHost, allowOrigin, logLevel } = flagged;
  if ((tlsCert === undefined) !== (tlsKey === undefined)) {
    throw usageError("--tls-cert and --tls-key belong together: give both, or neither");
  }
  const hasTls = tlsCert !== undefined && tlsKey !== undefined;
  return given({
    host,
    port,
    store,
    dataDir: dataDir === undefined ? undefined : resolve(cwd, dataDir),
    tls: hasTls ? { cert: resolve(cwd, tlsCert), key: resolve(cwd, tlsKey) } : undefined,
    allowHosts: allowHost,
    allowOrigins: allowOrigin,
    logLevel,
  });
}
