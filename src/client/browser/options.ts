/**
 * The options of a browser client, with units, defaults and the reason for each; checked once. The
 * names are those of the Node client wherever they mean the same.
 */
import * as z from "../../protocol/rules.ts";
import { callable, checked, custom, fields, httpUrl, text, yesOrNo } from "../../protocol/checked.ts";
import type { BlobCalls, Connect } from "../../transport/transport.ts";
import { type ApiKey, credentialsOf } from "../api-key.ts";
import type { OnStall, StreamSettings, ToolRunner } from "../index.ts";
import { CLIENT_FIELDS } from "../client-fields.ts";
import type { OnTraffic } from "../traffic.ts";
import { mayPersist, switchedSettings } from "../stream-options.ts";

export interface BrowserClientOptions {
  /** Where the server is. Default: where the page comes from. */
  readonly url?: string | undefined;
  /** Authenticates; a function is asked again when the server refuses what it gave. */
  readonly apiKey?: ApiKey | undefined;
  /**
   * Names the IndexedDB database of journals and home key, together with `url`: to another server the
   * streams of this one would be lost. Applications that share an origin and should not see each other's
   * streams take different names. Default: `holdfast`.
   */
  readonly database?: string | undefined;
  /** 32 bytes. Default: a key that is made once and kept in the database, where no script can read it out. */
  readonly homeKey?: Uint8Array | undefined;
  /** Journals in IndexedDB. Off: they live in memory and a reload forgets. Default: true. */
  readonly persistence?: boolean | undefined;
  /** Streams that continue after a break. Off: a broken connection is the end. Default: true. */
  readonly reliable?: boolean | undefined;
  /** How long a stream may have been quiet, by the server's clock, for `resumeAll` to resume it. Default: 7,200,000. */
  readonly retryLookbackWindowMs?: number | undefined;
  /** Whether a new stream may run without durability while the server's store is down. Default: true. */
  readonly allowDegraded?: boolean | undefined;
  /** What this client carries out for the server: `toolRunner(tools)`. Default: nothing; execs are events like any other. */
  readonly tools?: ToolRunner | undefined;
  /** One connection for all tabs of the origin. Off: one for this tab. Default: true. */
  readonly shareConnection?: boolean | undefined;
  /** A transport of your own, not shared with other tabs; `url` then means nothing. */
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
  /** What people should know once, such as where the home key lies. Default: it is dropped. */
  readonly onNotice?: ((message: string) => void) | undefined;
  /** Called with failed assertions and with what listeners throw. Default: `reportError`. */
  readonly onBug?: ((bug: unknown) => void) | undefined;
  /**
   * Called when a stream stands still, and when it moves again: what, for how long, which requests of the server are unanswered.
   * `stallLine(news)` is one line for a log. Default: nothing is printed.
   */
  readonly onStall?: OnStall | undefined;
  /** Called with every frame that is sent and received, for a view of the traffic. Default: no call. */
  readonly onTraffic?: OnTraffic | undefined;
}

/** Everything decided. */
export interface Settings {
  readonly url: string;
  readonly credentials: () => Promise<string | undefined>;
  /** With the server's address in it. */
  readonly database: string;
  readonly homeKey: Uint8Array | undefined;
  /** Whether there are journals on disk at all; `stream` says it for each stream. */
  readonly persistence: boolean;
  readonly shareConnection: boolean;
  readonly stream: StreamSettings | (() => StreamSettings);
  readonly onNotice: (message: string) => void;
}

const OPTIONS = fields({
  ...CLIENT_FIELDS,
  url: httpUrl(": give the API key as apiKey"),
  database: z.optional(text()),
  shareConnection: z.optional(yesOrNo()),
  onTraffic: z.optional(callable<OnTraffic>()),
  tools: z.optional(
    custom<ToolRunner>(
      (runner) => runner instanceof Object && "begin" in runner,
      "must be made by toolRunner(tools)",
      { isHidden: true },
    ),
  ),
});

export function settle(options: BrowserClientOptions, pageOrigin: string | undefined): Settings {
  // A page from a file has no origin, and must say where its server is.
  const url = new URL(checked(OPTIONS, { ...options, url: options.url ?? pageOrigin }).url).href;
  return {
    url,
    credentials: credentialsOf(options.apiKey),
    database: `${options.database ?? "holdfast"} ${url}`,
    homeKey: options.homeKey,
    persistence: mayPersist(options),
    shareConnection: options.shareConnection ?? true,
    stream: switchedSettings(options),
    onNotice: options.onNotice ?? (() => undefined),
  };
}
