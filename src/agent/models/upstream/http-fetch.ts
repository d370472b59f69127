/**
 * `fetch` for requests to providers, over `node:http`: for a short answer the runtime's own takes three times the processor time.
 *
 * It does what providers need and no more: a text or bytes as the body, no redirects, no cookies, no cache, nothing compressed. Its connections are those of
 * `node:http`, as the line's are: kept for a while, and led through a proxy where `NODE_USE_ENV_PROXY` says so.
 *
 * Invariant: the request ends with its signal, and a body that breaks is an error behind every byte that came.
 */
import {
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request as httpRequest,
  type RequestOptions,
} from "node:http";
import { request as httpsRequest } from "node:https";
import { urlToHttpOptions } from "node:url";
import { noAnswer } from "../line/line-answer.ts";
import type { Fetch } from "../providers.ts";
import { ArrivingBytes, arrivingResponse } from "./arriving-bytes.ts";
import { addressOf } from "./redirects.ts";

type Init = NonNullable<Parameters<Fetch>[1]>;

/** Statuses whose answers have no body. */
const BODILESS: ReadonlySet<number> = new Set([204, 205, 304]);

export const httpFetch: Fetch = async (input, init = {}) => {
  const { method = "GET", signal } = init;
  signal?.throwIfAborted();
  const address = addressOptions(addressOf(input));
  const body = bytesOf(init.body);
  const answered = Promise.withResolvers<Response>();
  const length = body === undefined ? {} : { "content-length": String(body.length) };
  const headers = { ...namedHeaders(init.headers), "accept-encoding": "identity", ...length };
  const send = address.protocol === "https:" ? httpsRequest : httpRequest;
  const request = send({ ...address, method, headers });
  const leave = (): void => {
    answered.reject(signal?.reason);
    request.destroy();
  };
  signal?.addEventListener("abort", leave, { once: true });
  request.on("close", () => signal?.removeEventListener("abort", leave));
  request.on("error", (cause: Error & { readonly code?: string }) =>
    answered.reject(noAnswer(cause.code ?? "ECONNRESET", cause)),
  );
  request.on("response", (response) => {
    try {
      answered.resolve(responseOf(response, signal));
    } catch (cause) {
      request.destroy();
      answered.reject(noAnswer("EPROTO", cause));
    }
  });
  request.end(body);
  return answered.promise;
};

const ADDRESSES_MAX = 64;
/** A provider has a few addresses, and taking one apart costs a twentieth of all that is done before its request leaves. */
const addresses = new Map<string, RequestOptions>();

function addressOptions(address: string): RequestOptions {
  const known = addresses.get(address);
  if (known !== undefined) return known;
  // No more than is read: they are copied with each request.
  const { protocol, hostname, port, path, auth } = urlToHttpOptions(new URL(address));
  const options = { protocol, hostname, port, path, auth };
  if (addresses.size >= ADDRESSES_MAX) addresses.clear();
  addresses.set(address, options);
  return options;
}

function responseOf(response: IncomingMessage, signal: Init["signal"]): Response {
  const { statusCode: status = 0, headers } = response;
  const named = Object.entries(headers).map(([name, value]): [string, string] => [
    name,
    Array.isArray(value) ? value.join(", ") : (value ?? ""),
  ]);
  if (!BODILESS.has(status)) return arrivingOf(response, { status, headers: named }, signal);
  response.resume();
  return new Response(null, { status, headers: named });
}

/** A reader that is behind stops the provider, and meets a break behind what came. */
function arrivingOf(response: IncomingMessage, head: ResponseInit, signal: Init["signal"]): Response {
  const bytes = new ArrivingBytes(response);
  response.on("data", (piece: Buffer) => bytes.take(piece));
  response.on("end", () => bytes.end());
  response.on("error", (cause) =>
    bytes.break(signal?.aborted === true ? signal.reason : noAnswer("ECONNRESET", cause)),
  );
  return arrivingResponse(bytes, head, () => response.destroy());
}

function bytesOf(body: Init["body"]): Buffer | undefined {
  if (body === undefined || body === null) return undefined;
  if (typeof body === "string" || body instanceof Uint8Array) return Buffer.from(body);
  throw new TypeError("a request to a provider has a text or bytes as its body");
}

/** A record is made of headers that were checked. */
function namedHeaders(headers: Init["headers"]): OutgoingHttpHeaders {
  return headers instanceof Headers || Array.isArray(headers)
    ? Object.fromEntries(new Headers(headers))
    : { ...headers };
}
