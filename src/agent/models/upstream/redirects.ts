/**
 * Requests to a provider that follow no redirect.
 *
 * `fetch` takes `authorization` off a request that a redirect sends to another host, but not `x-api-key` or `x-goog-api-key`: the other host
 * would get the API key and the prompt. So a redirect is a failure, and its message names the address to configure.
 */
import type { Fetch } from "../providers.ts";

/** The provider sent the request to another address. */
export class Redirected extends Error {
  readonly status: number;
  /** Scheme, host and port only: the rest may hold anything. */
  readonly origin: string;

  constructor(status: number, origin: string) {
    super(`the provider redirects to ${origin}`);
    this.status = status;
    this.origin = origin;
  }
}

const REDIRECTS: ReadonlySet<number> = new Set([300, 301, 302, 303, 305, 307, 308]);

export function withoutRedirects(fetch: Fetch): Fetch {
  return async (input, init) => {
    const response = await fetch(input, { ...init, redirect: "manual" });
    if (!REDIRECTS.has(response.status)) return response;
    await response.body?.cancel();
    throw new Redirected(response.status, originOf(response.headers.get("location"), addressOf(input)));
  };
}

export function addressOf(input: Parameters<Fetch>[0]): string {
  if (typeof input === "string") return input;
  return input instanceof URL ? input.href : input.url;
}

function originOf(location: string | null, base: string): string {
  const target = URL.canParse(location ?? "", base) ? new URL(location ?? "", base) : undefined;
  return target === undefined || target.origin === "null" ? "an address that is none" : target.origin;
}
