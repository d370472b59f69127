/**
 * The options of a Node client, with units, defaults and the reason for each; checked once.
 *
 * The switches have the meaning they have in the design that this one follows; the names there are in
 * parentheses. Ours default to on.
 */
import * as z from "../protocol/rules.ts";
import { type ApiKey, credentialsOf } from "../client/api-key.ts";
import type { OnStall, StreamSettings, Tools } from "../client/index.ts";
import { CLIENT_FIELDS } from "../client/client-fields.ts";
import { mayPersist, switchedSettings } from "../client/stream-options.ts";
import { checked, fields, having, httpUrl, oneOf, text, variable, yesOrNo } from "../protocol/checked.ts";
import type { BlobCalls, Connect } from "../transport/transport.ts";
import { parseHomeKey } from "./key-places.ts";
import type { ScopeName } from "./scope.ts";
import { environmentSwitches } from "./environment-switches.ts";

export type TransportName = "http2" | "fetch";

export interface NodeClientOptions {
  /** Where the server is. Default: `HOLDFAST_URL`, else this machine, port 4600. */
  readonly url?: string | undefined;
  /** Authenticates; a function is asked again when the server refuses what it gave. Default: `HOLDFAST_API_KEY`. */
  readonly apiKey?: ApiKey | undefined;
  /**
   * `workspace`: journals in `.holdfast/` of the working directory, so that two projects never see each other's
   * streams. `application`: in the user's data directory. Default: `workspace`.
   */
  readonly scope?: ScopeName | undefined;
  /** The workspace instead of the working directory; in the application scope, the data directory itself. */
  readonly directory?: string | undefined;
  /** 32 bytes. Default: `HOLDFAST_HOME_KEY` (base64url), else the keyring, else a file apart from the data. */
  readonly homeKey?: Uint8Array | undefined;
  /** Whether the system's keyring is asked for the home key. Default: true. */
  readonly keyring?: boolean | undefined;
  /**
   * Journals on disk (`persist_idempotent_stream_state`). Off: they live in memory, nothing is written anywhere
   * and a restart forgets. Default: true.
   */
  readonly persistence?: boolean | undefined;
  /**
   * Streams that continue after a break (`idempotent_agentic_composer`). Off: plain streaming, where a broken
   * connection is the end. Default: true.
   */
  readonly reliable?: boolean | undefined;
  /**
   * How long a stream may have been quiet, by the server's clock, for `resumeAll` to resume it
   * (`idempotent_stream_config.retry_lookback_window_ms`). Default: 7,200,000, two hours: as long as a server keeps one.
   */
  readonly retryLookbackWindowMs?: number | undefined;
  /** Whether a new stream may run without durability while the server's store is down. Default: true. */
  readonly allowDegraded?: boolean | undefined;
  /** What this client carries out for the server. Default: nothing; execs are events like any other. */
  readonly tools?: Tools | undefined;
  /** `http2`: one two-way call per stream. `fetch`: a server stream and appends, where only HTTP/1.1 gets through. Default: `http2`. */
  readonly transport?: TransportName | undefined;
  /** PEM of a certificate authority to trust instead of the system's; `http2` only. */
  readonly ca?: string | undefined;
  /** A transport of your own; `transport` then means nothing, and `url` only says in the journals whose streams they are. */
  readonly connect?: Connect | undefined;
  /** The blob calls of that transport. Without them its streams have no blobs. */
  readonly blobs?: BlobCalls | undefined;
  /**
   * Retry, stall clocks, heartbeats and the switches above, in detail; what is left out, at any depth, is as `STREAM_DEFAULTS` says. The switches above win.
   * A function is asked for each new stream: the switches can change while the client runs, and count for the streams that begin after that.
   */
  readonly stream?: StreamSettings | (() => StreamSettings) | undefined;
  /** How many streams resume at the same time. Default: 4. */
  readonly resumesMax?: number | undefined;
  /** What people should know once, such as where the home key lies. Default: a process warning. */
  readonly onNotice?: ((message: string) => void) | undefined;
  /** Called with failed assertions and with what listeners throw. Default: a process warning. */
  readonly onBug?: ((bug: unknown) => void) | undefined;
  /**
   * Called when a stream stands still, and when it moves again: what, for how long, which requests of the server are unanswered.
   * `stallLine(news)` is one line for a log. Default: nothing is printed.
   */
  readonly onStall?: OnStall | undefined;
}

/** The port that `holdfast serve` listens on when nothing else is said. */
export const DEFAULT_URL = "http://127.0.0.1:4600";

type Environment = Readonly<Record<string, string | undefined>>;

const OPTIONS = fields({
  ...CLIENT_FIELDS,
  scope: z.optional(oneOf(["workspace", "application"])),
  directory: z.optional(text()),
  keyring: z.optional(yesOrNo()),
  transport: z.optional(oneOf(["http2", "fetch"])),
  ca: z.optional(text()),
  tools: z.optional(having<Tools>(["policy", "approve", "run", "stopLeftover"])),
});

const VARIABLES = z.object({
  HOLDFAST_URL: variable(httpUrl()),
  // Both may hold secrets: the functions that read them say what is wrong without repeating it.
  HOLDFAST_API_KEY: variable(z.string()),
  HOLDFAST_HOME_KEY: variable(z.string()),
});

/** Everything decided. */
export type Settings = Readonly<ReturnType<typeof settle>>;

export function settle(options: NodeClientOptions, environment: Environment = process.env) {
  checked(OPTIONS, options);
  const variables = checked(VARIABLES, environment);
  const byEnvironment = environmentSwitches(environment);
  const homeKeyText = options.homeKey === undefined ? variables.HOLDFAST_HOME_KEY : undefined;
  return {
    url: options.url ?? variables.HOLDFAST_URL ?? DEFAULT_URL,
    credentials: credentialsOf(options.apiKey ?? variables.HOLDFAST_API_KEY),
    scope: options.scope ?? "workspace",
    directory: options.directory,
    homeKey: homeKeyText === undefined ? options.homeKey : parseHomeKey(homeKeyText, "HOLDFAST_HOME_KEY"),
    keyring: options.keyring ?? true,
    /** Whether there are journals on disk at all; `stream` says it for each stream. */
    persistence: mayPersist(options, byEnvironment),
    transport: options.transport ?? "http2",
    ca: options.ca,
    stream: switchedSettings(options, byEnvironment),
    onNotice:
      options.onNotice ?? ((message: string) => process.emitWarning(message, { code: "HOLDFAST_NOTICE" })),
    onBug:
      options.onBug ??
      ((bug: unknown) =>
        process.emitWarning(bug instanceof Error ? bug : String(bug), { code: "HOLDFAST_BUG" })),
  };
}
