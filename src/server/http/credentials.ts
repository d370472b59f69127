/**
 * The API keys that a request brings, in the order in which they are looked at.
 *
 * A header that cannot be an API key (empty, another scheme, several words) counts as absent. One that can be and is not ours does not
 * hide the next: programs and proxies send an `Authorization` of their own beside the header that their user configured.
 */
import type { Exchange } from "../../transport/node/exchange.ts";

const BEARER = /^bearer +([\x21-\x7e]+) *$/i;
const ONE_WORD = /^ *([\x21-\x7e]+) *$/;

/** Of a call of our own protocol: `Authorization: Bearer` alone. */
export function bearerTokens(authorization: string | undefined): readonly string[] {
  const token = BEARER.exec(authorization ?? "")?.[1];
  return token === undefined ? [] : [token];
}

/** Of the gateway's clients: OpenAI's send the first, Anthropic's the second, Azure's the third. */
export function gatewayTokens(exchange: Pick<Exchange, "header">): readonly string[] {
  const own = ["x-api-key", "api-key"].flatMap(
    (name) => ONE_WORD.exec(exchange.header(name) ?? "")?.[1] ?? [],
  );
  return [...new Set([...bearerTokens(exchange.header("authorization")), ...own])];
}
