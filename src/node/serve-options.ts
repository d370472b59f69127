/**
 * The options of `serve`, with units, defaults and the reason for each; checked once. TypeScript sees most mistakes; a program in JavaScript hears of
 * them here.
 */
import type { Logger } from "pino";
import * as z from "../protocol/rules.ts";
import type { ModelsConfig, ProviderConfig } from "../agent/models/index.ts";
import { DEFAULTS as RETENTION } from "../core/retention.ts";
import { DEFAULTS as STORE_LIFE } from "../core/store-life.ts";
import {
  callable,
  checked,
  fields,
  httpUrl,
  list,
  secretThat,
  text,
  textThat,
  variable,
  whole,
  wholeText,
  yesOrNo,
} from "../protocol/checked.ts";
import { GATEWAY_LIMITS } from "../gateway/options.ts";
import { TOKENS_MAX } from "../server/api-key-limits.ts";
import type { ScanProgress } from "../store/index.ts";
import type { Machine } from "./machine.ts";
import type { Saved } from "./saved.ts";

export interface ServeOptions {
  /** Where the server keeps its data; one server at a time. Default: `holdfast/server` in the user's data directory. */
  readonly data?: string | undefined;
  /** A `postgres://` address where streams, tables and blobs are kept instead of the data directory. Default: none. */
  readonly store?: string | undefined;
  /** Default: 127.0.0.1. An address that other machines can reach needs an API key first. */
  readonly host?: string | undefined;
  /** 0 = any free one. False: none, and a server of your own hands requests to `listener` or `fetch`. Default: `HOLDFAST_PORT`, else 4600. */
  readonly port?: number | false | undefined;
  /** For `listener` and `fetch`: the path that they are mounted under, such as `/ai`, where the server around them does not take it off. Default: none. */
  readonly prefix?: string | undefined;
  /** PEM. Default: no TLS. */
  readonly tls?: { readonly cert: string; readonly key: string } | undefined;
  /** Names under which the server is asked, beside its address. Default: none. */
  readonly allowedHosts?: readonly string[] | undefined;
  /** Origins of web pages that may ask. Default: none. */
  readonly allowedOrigins?: readonly string[] | undefined;
  /** One more API key, for principal `default`; never stored. Default: those of the data directory, and the first start makes one. */
  readonly apiKey?: string | undefined;
  /** As `providers` and `models` of the config file. Default: what the environment names, else the rehearsal model. */
  readonly providers?: Readonly<Record<string, ProviderConfig>> | undefined;
  readonly models?: ModelsConfig | undefined;
  /** A directory that the gateway's agent may read and search. Default: none. */
  readonly workspace?: string | undefined;
  /** A Holdfast server elsewhere whose streams the gateway uses. Default: this one's. */
  readonly upstreamServer?: string | undefined;
  /** How many answers and waiting turns one principal may have at the gateway. Default: 1,000. */
  readonly openStreamsMax?: number | undefined;
  /** How long the gateway keeps a response that can be asked for by its id. Default: 30 days. */
  readonly responseTtlMs?: number | undefined;
  /** How long a turn of the gateway waits for the results of its tools. Default: 30 minutes. */
  readonly sessionTtlMs?: number | undefined;
  /** Tokens that an API key without a limit of its own may spend in a day of UTC. Default: any number. */
  readonly tokensPerDay?: number | undefined;
  /** How long a stream is kept after its last activity. Default: two hours. */
  readonly retentionMs?: number | undefined;
  /** Before a store that failed is opened anew. */
  readonly storePauseMs?: number | undefined;
  /** For how long a PostgreSQL that is away is waited for before the store counts as failed. Default: 5 s. */
  readonly storePatienceMs?: number | undefined;
  /** For how long the other nodes on a shared PostgreSQL wait when this one falls silent. Default: 15 s. */
  readonly leaseMs?: number | undefined;
  /** Model calls outlive this process, held by a small one beside it. Not on Windows. Default: no. */
  readonly line?: boolean | undefined;
  /** Default: warnings, as JSON lines on standard error. */
  readonly logger?: Logger | undefined;
  /** What people should know once, such as where the home key lies. Default: a process warning. */
  readonly onNotice?: ((notice: string) => void) | undefined;
  /** Called when all but the database is ready; it may wait until another process has let go of the data directory. Default: nothing. */
  readonly beforeOpening?: (() => Promise<void>) | undefined;
  /** Called once a second while a large database is read. Default: nothing. */
  readonly onReading?: ((progress: ScanProgress) => void) | undefined;
  /** Called for each answer that cost no second model call. Default: nothing. */
  readonly onSaved?: ((how: Saved) => void) | undefined;
  /** Default: this process's. */
  readonly machine?: Machine | undefined;
}

export const SERVE_DEFAULTS = {
  /** Only this machine reaches it: what is open to others is the operator's decision. */
  host: "127.0.0.1",
  port: 4600,
  openStreamsMax: GATEWAY_LIMITS.openStreamsMax,
  responseTtlMs: GATEWAY_LIMITS.responseTtlMs,
  sessionTtlMs: GATEWAY_LIMITS.sessionTtlMs,
  retentionMs: RETENTION.retentionMs,
  storePauseMs: STORE_LIFE.pauseMs,
  /** Longer than a server takes to restart, shorter than a client's patience. */
  storePatienceMs: 5_000,
  leaseMs: 15_000,
  /** Of `holdfast serve`: `docker stop` kills after ten seconds. */
  drainMs: 8_000,
} as const;

/** Never repeated in a message: it may hold a password. */
export const storeAddress = () =>
  secretThat(
    (said) => /^postgres(?:ql)?:\/\//.test(said),
    "must be an address such as postgres://user@host:5432/database",
  );

/** Shorter ones can be guessed. */
export const API_KEY_CHARS_MIN = 20;

const SCHEMA = fields({
  data: z.optional(text()),
  store: z.optional(storeAddress()),
  host: z.optional(text()),
  port: z.optional(z.union([z.literal(false), whole(0, 65_535)])),
  prefix: z.optional(textThat((said) => /^(?:\/[^/?#]+)+$/.test(said), "must be a path such as /ai")),
  tls: z.optional(
    fields({ cert: text("must be a PEM text"), key: secretThat((pem) => pem !== "", "must be a PEM text") }),
  ),
  allowedHosts: z.optional(list(text())),
  allowedOrigins: z.optional(list(text())),
  apiKey: z.optional(
    secretThat(isApiKey, `must have at least ${API_KEY_CHARS_MIN} visible ASCII characters`),
  ),
  providers: z.optional(z.custom<ServeOptions["providers"]>()),
  models: z.optional(z.custom<ServeOptions["models"]>()),
  workspace: z.optional(text()),
  upstreamServer: z.optional(httpUrl()),
  openStreamsMax: z.optional(whole(1)),
  responseTtlMs: z.optional(whole(1)),
  sessionTtlMs: z.optional(whole(1)),
  tokensPerDay: z.optional(whole(1, TOKENS_MAX)),
  retentionMs: z.optional(whole(1)),
  storePauseMs: z.optional(whole(1)),
  storePatienceMs: z.optional(whole(1)),
  leaseMs: z.optional(whole(1)),
  line: z.optional(yesOrNo()),
  logger: z.optional(z.custom<Logger>()),
  onNotice: z.optional(callable<(notice: string) => void>()),
  beforeOpening: z.optional(callable<() => Promise<void>>()),
  onReading: z.optional(callable<(progress: ScanProgress) => void>()),
  onSaved: z.optional(callable<(how: Saved) => void>()),
  machine: z.optional(z.custom<Machine>()),
} satisfies Record<keyof ServeOptions, unknown>);

const PORT = z.object({ HOLDFAST_PORT: variable(wholeText(0, 65_535)) });

/** Where a server listens when no port is given. */
export function defaultPort(environment: Machine["env"]): number {
  return checked(PORT, environment).HOLDFAST_PORT ?? SERVE_DEFAULTS.port;
}

export function checkServeOptions(options: ServeOptions): void {
  checked(SCHEMA, options);
}

/** Long enough not to be guessed, and fit for a header. */
export function isApiKey(text: unknown): boolean {
  return typeof text === "string" && text.length >= API_KEY_CHARS_MIN && /^[\x21-\x7e]+$/.test(text);
}
