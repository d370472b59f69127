/**
 * Whether a server is there and lets this client in, asked once when a program connects.
 *
 * The question is an ordinary attach to a stream that does not exist, over the client's own transport: a client that gets `not_found` has been let in.
 */
import { randomBytes } from "node:crypto";
import type { Client } from "../client/index.ts";
import { HoldfastError } from "../protocol/errors.ts";

/** Rejects in words for the person who started the program. */
export async function reachServer(client: Client, address: string, patienceMs: number): Promise<void> {
  const stream = await client.follow(`hello-${randomBytes(16).toString("hex")}`, 0, { peek: true });
  const timer = setTimeout(() => stream.leave(), patienceMs);
  let trouble = stream.status.trouble;
  const unwatch = stream.watch((status) => {
    trouble = status.trouble ?? trouble;
  });
  try {
    await stream.ended;
  } finally {
    clearTimeout(timer);
    unwatch();
  }
  const failure = stream.status.failure ?? trouble;
  switch (failure?.code) {
    case "not_found":
      return;
    case "unauthenticated":
      throw new HoldfastError(
        "unauthenticated",
        `the server at ${address} does not know this API key: give \`apiKey\`, or set HOLDFAST_API_KEY; \`npx holdfast keys create\` makes one`,
      );
    default:
      throw new HoldfastError(
        "unavailable",
        `no Holdfast server answers at ${address}${failure === undefined ? "" : ` (${failure.message})`}: start one with \`npx holdfast serve\`, or name another address`,
      );
  }
}
