/**
 * The endpoints on a real port, behind a relay that can be cut: what the transports of a client are run against.
 */
import type { TestContext } from "node:test";
import { HoldfastError } from "../../src/protocol/errors.ts";
import type { Accept, Connect } from "../../src/transport/index.ts";
import type { Exchange } from "../../src/transport/node/exchange.ts";
import { openPort, type Port, type PortOptions } from "../../src/transport/node/port.ts";
import { refuse } from "../../src/transport/node/refuse.ts";
import { type StreamEndpoints, streamEndpoints } from "../../src/transport/node/stream-endpoints.ts";
import type { TransportUnderTest } from "../conformance/transport.ts";
import { quiet, Relay } from "./relay.ts";

/** What the rig needs of a port, or of another server that hands its requests over. */
export type OpenPort = Pick<Port, "port" | "close">;

export interface HttpRig {
  readonly url: string;
  readonly relay: Relay;
  readonly endpoints: StreamEndpoints;
}

/** The API key is the principal's name. */
export function principalOf(exchange: Exchange): string | undefined {
  return exchange.header("authorization")?.replace(/^Bearer /, "");
}

export function serveWith(endpoints: StreamEndpoints): (exchange: Exchange) => void {
  return (exchange) => {
    const principal = principalOf(exchange);
    if (principal !== undefined) return endpoints.handle(exchange, { principal });
    refuse(exchange, new HoldfastError("unauthenticated", "the credentials were not accepted"));
  };
}

export async function httpRig(
  accept: Accept,
  t: TestContext,
  options: Omit<PortOptions, "handle"> & { readonly open?: (options: PortOptions) => Promise<OpenPort> } = {},
): Promise<HttpRig> {
  const bugs: unknown[] = [];
  const onBug = (bug: unknown): void => void bugs.push(bug);
  const endpoints = streamEndpoints({ accept, onBug });
  const { open = openPort, ...more } = options;
  const port = await open({ ...more, onBug, handle: serveWith(endpoints) });
  const relay = await Relay.open(port.port);
  t.after(async () => {
    relay.close();
    await port.close(0);
    if (bugs.length > 0) throw new Error("the server met a bug", { cause: bugs[0] });
  });
  const scheme = options.tls === undefined ? "http" : "https";
  return { url: `${scheme}://127.0.0.1:${relay.port}`, relay, endpoints };
}

/** The rig as a transport for the conformance suite. */
export function underTest(connect: Connect, { relay }: HttpRig): TransportUnderTest {
  let calls = 0;
  return {
    connect: (meta, handler) =>
      connect(meta, {
        received(frame) {
          calls++;
          handler.received(frame);
        },
        drained() {
          calls++;
          handler.drained();
        },
        closed(reason) {
          calls++;
          handler.closed(reason);
        },
      }),
    async settle() {
      relay.resume();
      await quiet(() => relay.activity + calls);
    },
    cut: () => relay.cut(),
    congest: () => relay.stop(),
  };
}
