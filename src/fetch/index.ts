/**
 * `holdfast/fetch`: a `fetch` for any SDK that takes one, with which an answer of the gateway outlives its connection and its server.
 *
 * Only conversations with gateways are touched: POSTs of text or bytes to `.../chat/completions`, `.../responses` and `.../messages` under a base URL that was given, or that answered as a
 * gateway before. Everything else is the plain `fetch`, and no other server is sent a header more.
 */
import { Call, type CallParts, type Fetch } from "./driver.ts";
import { Keys, requestName } from "./keys.ts";

export interface HoldfastFetchOptions {
  /** Where the gateway is, as the SDK is given it. Without it the first answer of each gateway is not repeated when it breaks before it begins. */
  readonly baseURL?: string | readonly string[];
  /** How long a break may take, in seconds; the gateway keeps the answer under way for as long, within its own bound. Default: 300. */
  readonly patienceSeconds?: number;
  /** Default: the global one of the moment. */
  readonly fetch?: Fetch;
}

const PATIENCE_SECONDS = 300;
const ASKED = /\/(?:chat\/completions|responses|messages)$/;

export function holdfast({
  baseURL = [],
  patienceSeconds = PATIENCE_SECONDS,
  fetch: given,
}: HoldfastFetchOptions = {}): Fetch {
  if (!(patienceSeconds > 0)) throw new TypeError("patienceSeconds is a number of seconds above 0");
  const bases = [baseURL].flat().map((base) => `${new URL(base).href.replace(/\/$/, "")}/`);
  const gateways = new Set<string>();
  const keys = new Keys();
  const patienceMs = patienceSeconds * 1_000;
  const plain: Fetch = (input, init) => (given ?? globalThis.fetch)(input, init);

  async function send(url: string, text: string, init: RequestInit): Promise<Response> {
    const headers = new Headers(init.headers);
    const isStreamed = /"stream"\s*:\s*true/.test(text);
    const parts = { fetch: plain, url, init, headers, isStreamed, patienceMs };
    if (!gateways.has(url) && !bases.some((base) => url.startsWith(base))) {
      const response = await plain(url, init);
      if (!response.ok || !response.headers.has("x-holdfast-stream")) return response;
      gateways.add(url);
      return new Call({ ...parts, key: undefined, onOver: () => undefined }).run(response);
    }
    const own = headers.get("idempotency-key");
    if (own !== null) return new Call({ ...parts, key: own, onOver: () => undefined }).run();
    const request = requestName([url, headers.get("authorization") ?? headers.get("x-api-key") ?? "", text]);
    const key = keys.take(request, performance.now());
    const onOver: CallParts["onOver"] = (left) => {
      if (left === "unfinished") keys.leave(request, key, performance.now() + patienceMs);
    };
    return new Call({ ...parts, key, onOver }).run();
  }

  return (input, init = {}) => {
    const url = typeof input === "string" || input instanceof URL ? absolute(input) : undefined;
    const text = textOf(init.body);
    const isAsking = init.method?.toUpperCase() === "POST" && ASKED.test(url?.split(/[?#]/)[0] ?? "");
    return isAsking && url !== undefined && text !== undefined ? send(url, text, init) : plain(input, init);
  };
}

/** Undefined for what `fetch` will refuse. */
function absolute(input: string | URL): string | undefined {
  const page: unknown = Reflect.get(globalThis, "location");
  const text = typeof input === "string" ? input : input.href;
  return URL.parse(text, page instanceof Object ? String(Reflect.get(page, "href")) : undefined)?.href;
}

/** Undefined for a body that can be read only once, and for none. */
function textOf(body: unknown): string | undefined {
  if (typeof body === "string") return body;
  if (body instanceof ArrayBuffer) return new TextDecoder().decode(body);
  if (!ArrayBuffer.isView(body)) return undefined;
  return new TextDecoder().decode(new Uint8Array(body.buffer, body.byteOffset, body.byteLength));
}
