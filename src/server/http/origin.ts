/**
 * Who may talk to this server through a browser (E7).
 *
 * A page of another site can make the user's browser send requests here. Two things give it away: the `Host` it had to use
 * (a name of its own that it lets point at us: DNS rebinding), and the `Origin` and `Sec-Fetch-Site` that the
 * browser adds and a page cannot change. Everything is refused that is not known to be good, before anything runs.
 */
import { isIPv4 } from "node:net";
import type { Exchange } from "../../transport/node/exchange.ts";

interface OriginRules {
  /** Names this server goes by besides those of loopback: `name` for any port, or `name:port`. */
  readonly allowedHosts: readonly string[];
  /** Origins of foreign pages that may use this server: `https://app.example`. */
  readonly allowedOrigins: readonly string[];
}

/** What is looked at. Header values are as they came. */
export type Claim = Pick<Exchange, "isSecure" | "method" | "path" | "host" | "header">;

export type Judgement =
  | { readonly kind: "refused"; readonly reason: string }
  /** `corsOrigin` is set when an allowed foreign page asks: the response must say that it is. */
  | { readonly kind: "allowed"; readonly corsOrigin: string | undefined };

export type Judge = (claim: Claim) => Judgement;

export function originJudge(rules: OriginRules): Judge {
  const hosts = new Set(rules.allowedHosts.map((name) => normalHost(name)));
  const origins = new Set(rules.allowedOrigins.map((origin) => normalOrigin(origin)));
  const lookAt = (given: string) => {
    const host = normalHost(given);
    const name = nameOf(host);
    return { given, host, isOurs: isLoopbackName(name) || hosts.has(host) || hosts.has(name) };
  };
  // Nearly all clients go by the same name.
  let last = lookAt("");
  return (claim) => {
    // HTTP/2 has a second place for it; two names are none.
    const named = claim.header("host");
    const given = named === undefined || named === claim.host ? claim.host : "";
    if (given !== last.given) last = lookAt(given);
    const { host, isOurs } = last;
    if (!isOurs) {
      return refused("this server does not go by that Host; add the name to its allowed hosts");
    }
    const origin = claim.header("origin");
    if (origin === undefined) return judgeWithoutOrigin(claim);
    if (origins.has(origin)) return { kind: "allowed", corsOrigin: origin };
    if (origin === ownOrigin(claim.isSecure, host)) return ALLOWED;
    return refused("requests from this Origin are not allowed; add it to the allowed origins");
  };
}

const ALLOWED: Judgement = { kind: "allowed", corsOrigin: undefined };

function refused(reason: string): Judgement {
  return { kind: "refused", reason };
}

/** A browser that sends no Origin says in `Sec-Fetch-Site` whose page it was; what is no browser says neither. */
function judgeWithoutOrigin(claim: Claim): Judgement {
  const site = claim.header("sec-fetch-site");
  if (site === undefined || site === "same-origin" || site === "none") return ALLOWED;
  // A link on another page to our front page: it is only looked at.
  const isPage = claim.method === "GET" && claim.path === "/";
  const isVisit = isPage && claim.header("sec-fetch-mode") === "navigate";
  if (isVisit && claim.header("sec-fetch-dest") === "document") return ALLOWED;
  return refused("requests from pages of other sites are not allowed");
}

function ownOrigin(isSecure: boolean, host: string): string {
  const [scheme, port] = isSecure ? ["https", ":443"] : ["http", ":80"];
  return `${scheme}://${host.endsWith(port) ? host.slice(0, -port.length) : host}`;
}

/** Lower case, without the dot of a fully qualified name. */
function normalHost(host: string): string {
  return host
    .trim()
    .toLowerCase()
    .replace(/\.(?=:\d+$|$)/, "");
}

/** As browsers write it. What is no origin stays as it is and matches nothing. */
function normalOrigin(origin: string): string {
  return URL.canParse(origin) ? new URL(origin).origin : origin;
}

/** Without the port. */
function nameOf(host: string): string {
  return host.replace(/:\d+$/, "");
}

/** A `Host` that only a client on this machine would use: a proxy for others passes their name on. */
export function isLoopbackHost(host: string): boolean {
  return isLoopbackName(nameOf(normalHost(host)));
}

/** A name that no other machine can be reached by. */
export function isLoopbackName(name: string): boolean {
  if (name === "localhost" || name === "[::1]" || name === "::1") return true;
  return isIPv4(name) && name.startsWith("127.");
}

/** What our clients, and those of the gateway, send beside the headers that every page may. */
const CORS_HEADERS = [
  "anthropic-beta",
  "anthropic-dangerous-direct-browser-access",
  "anthropic-version",
  "api-key",
  "authorization",
  "connect-protocol-version",
  "connect-timeout-ms",
  "content-type",
  "idempotency-key",
  "last-event-id",
  "x-holdfast-patience",
  "x-api-key",
  "x-holdfast-connection",
  "x-holdfast-conversation-keep",
  "x-holdfast-conversation-key",
  "x-idempotency-event-id",
  "x-idempotency-key",
  "x-idempotent-encryption-key",
  "x-request-id",
  "x-session-id",
  // Of OpenAI's and Anthropic's SDKs.
  "x-stainless-arch",
  "x-stainless-helper-method",
  "x-stainless-lang",
  "x-stainless-os",
  "x-stainless-package-version",
  "x-stainless-retry-count",
  "x-stainless-runtime",
  "x-stainless-runtime-version",
  "x-stainless-timeout",
].join(", ");

/** What a page of an allowed origin may read of an answer, beside what every page may. */
export const EXPOSED_HEADERS: Readonly<Record<string, string>> = Object.freeze({
  "access-control-expose-headers":
    "retry-after, retry-after-ms, x-holdfast-answer, x-holdfast-ignored, x-holdfast-resume, x-holdfast-stream, x-request-id, request-id, x-should-retry",
});

/** Two hours: the longest that browsers keep an answer to a preflight. */
const PREFLIGHT_SECONDS = "7200";

/** The answer to a preflight of an allowed origin. The origin itself is on every answer to it. */
export const PREFLIGHT_HEADERS: Readonly<Record<string, string>> = Object.freeze({
  "access-control-allow-methods": "GET, POST, DELETE",
  "access-control-allow-headers": CORS_HEADERS,
  "access-control-max-age": PREFLIGHT_SECONDS,
  // A public page may reach a server in a private network only where that one agrees.
  "access-control-allow-private-network": "true",
});
