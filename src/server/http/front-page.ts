/**
 * What stands at `/`: a page of one file, with its script and its style inside.
 *
 * The policy is made of the file itself: it names the hashes of that script and that style, and nothing else runs, loads or is sent anywhere but here. So a
 * text that a model wrote stays text, whatever is in it. The page is looked at without an API key: it holds none, and can do nothing without one.
 */
import { createHash } from "node:crypto";
import { HoldfastError } from "../../protocol/errors.ts";
import { respondWith, type ResponseHeaders } from "../../transport/node/exchange.ts";
import { discardBody, PAGE_HEADERS } from "./answers.ts";
import type { ObservedExchange } from "./observed-exchange.ts";
import { isLoopbackHost, isLoopbackName } from "./origin.ts";
import { NOTICE } from "./routes.ts";

export interface PageFile {
  readonly html: Uint8Array;
  /** The same, compressed. */
  readonly brotli: Uint8Array;
  /** How code is coloured: JSON, for `/languages.json`. */
  readonly languages: Uint8Array;
}

export interface FrontPage {
  /** Rejects with a `HoldfastError` whose message tells a person what to do. */
  readonly read: () => Promise<PageFile>;
  /** An API key for the browser that brings this token; undefined when the token was used, is too old, or never was one. */
  readonly signIn: (token: string) => Promise<string | undefined>;
}

/** Hashing half a megabyte for each visitor without an API key would be a way to keep a server busy. */
const policies = new WeakMap<PageFile, string>();

export async function answerPage(exchange: ObservedExchange, page: FrontPage | undefined): Promise<void> {
  const send = (status: number, headers: ResponseHeaders, body: Uint8Array | string): void => {
    respondWith(exchange, status, headers, exchange.method === "HEAD" ? "" : body);
    discardBody(exchange);
  };
  const isPage = !exchange.path.endsWith("/languages.json");
  if (page === undefined) return isPage ? send(200, PAGE_HEADERS, NOTICE) : send(404, PAGE_HEADERS, "");
  try {
    const file = await page.read();
    if (!isPage) return send(200, { "content-type": "application/json" }, file.languages);
    const { html, brotli } = file;
    const policy = policies.get(file) ?? policyOf(Buffer.from(html).toString());
    policies.set(file, policy);
    const headers = { ...PAGE_HEADERS, "content-security-policy": policy };
    if (!acceptsBrotli(exchange.header("accept-encoding"))) return send(200, headers, html);
    return send(200, { ...headers, "content-encoding": "br" }, brotli);
  } catch (cause) {
    if (!(cause instanceof HoldfastError)) throw cause;
    return send(503, PAGE_HEADERS, noPage(cause.message));
  }
}

/** Only from this machine: the link is printed where the server runs. */
export async function answerSignIn(
  exchange: ObservedExchange,
  page: FrontPage | undefined,
  [token]: readonly string[],
): Promise<string> {
  const isHere = isLoopbackHost(exchange.host) && isLoopbackName(plainAddress(exchange.remoteAddress));
  const apiKey = page === undefined || token === undefined || !isHere ? undefined : await page.signIn(token);
  if (apiKey === undefined)
    throw new HoldfastError("unauthenticated", "this link was used before, or is too old");
  return apiKey;
}

/** An address of IPv4 that came by IPv6 is the same. */
function plainAddress(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, "");
}

function acceptsBrotli(header: string | undefined): boolean {
  return (header ?? "").split(",").some((one) => /^\s*br\s*(?:;\s*q=(?!0(?:\.0*)?\s*$).*)?$/i.test(one));
}

/** One script and one style, by their hashes; requests go to this server alone, and no string becomes markup or code. */
export function policyOf(html: string): string {
  const hashesOf = (tag: string): string =>
    [...html.matchAll(new RegExp(`<${tag}[^>]*>(?<text>[^]*?)</${tag}>`, "g"))]
      .map(
        ({ groups }) =>
          `'sha256-${createHash("sha256")
            .update(groups?.["text"] ?? "")
            .digest("base64")}'`,
      )
      .join(" ");
  return [
    "default-src 'none'",
    `script-src ${hashesOf("script")}`,
    `style-src ${hashesOf("style")}`,
    "connect-src 'self'",
    "img-src data:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join("; ");
}

function noPage(message: string): string {
  const text = message.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Holdfast</title>
<h1>The page is not there</h1>
<p>The server runs, and its clients can use it. Its page could not be built:</p>
<pre>${text}</pre>
</html>
`;
}
