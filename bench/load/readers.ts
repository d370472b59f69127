/**
 * Sets of readers: so many streams with one reader each, counted together.
 *
 * The protocols differ, what is done with an event does not: it is counted.
 */
import { connect } from "node:net";
import { once } from "node:events";
import { countMarks } from "../harness/body.ts";
import { H2Connection } from "./h2-wire.ts";
import { HoldfastCall } from "./holdfast-call.ts";
import { apiKeyOf, streamNameOf } from "../harness/names.ts";

export interface ReaderOptions {
  readonly port: number;
  readonly streams: number;
  /** How many share a connection, where the protocol lets them. */
  readonly perConnection: number;
  readonly role?: "writer" | "reader";
}

export interface ReaderSet {
  heartbeat(): void;
  close(): void;
}

export interface Counting {
  received(count: number): void;
  failed(why: string): void;
}

export type OpenReaders = (options: ReaderOptions, counting: Counting) => Promise<ReaderSet>;

/** So many connections are made at the same time: a listener's backlog is short. */
const CONNECTING_MAX = 64;

export const openReaders: Readonly<Record<string, OpenReaders>> = {
  holdfast: openHoldfast,
  http2: openHttp2,
  sse: openSse,
};

async function openHoldfast(options: ReaderOptions, counting: Counting): Promise<ReaderSet> {
  const connections = await connectAll(options);
  const calls: HoldfastCall[] = [];
  const { streams, perConnection, role = "writer" } = options;
  await bounded(streams, OPENING_MAX, (stream) => {
    const connection = connections[Math.floor(stream / perConnection)];
    return new Promise<void>((resolve, reject) => {
      const named = { idempotencyKey: streamNameOf(stream), apiKey: apiKeyOf(stream) };
      const attach = { mode: "open", role, eventId: 0 } as const;
      if (connection === undefined) return reject(new Error("there is a connection for every stream"));
      calls.push(
        new HoldfastCall(
          connection,
          { ...named, ...attach },
          {
            welcome: () => resolve(),
            event: () => counting.received(1),
            ack: () => undefined,
            failed: (why) => {
              counting.failed(why);
              reject(new Error(why));
            },
          },
        ),
      );
    });
  });
  return {
    heartbeat: () => {
      for (const call of calls) call.heartbeat();
    },
    close: () => {
      for (const call of calls) call.leave();
      for (const connection of connections) connection.destroy();
    },
  };
}

async function openHttp2(options: ReaderOptions, counting: Counting): Promise<ReaderSet> {
  const connections = await connectAll(options);
  let isClosed = false;
  await bounded(options.streams, OPENING_MAX, (stream) => {
    const connection = connections[Math.floor(stream / options.perConnection)];
    return new Promise<void>((resolve, reject) => {
      connection?.open(
        `/${streamNameOf(stream)}`,
        {},
        {
          opened: (isOk) => (isOk ? resolve() : reject(new Error("refused"))),
          data: (bytes) => counting.received(countMarks(bytes)),
          over: () => {
            if (!isClosed) counting.failed("the connection ended");
          },
        },
      );
    });
  });
  return {
    heartbeat: () => undefined,
    close: () => {
      isClosed = true;
      for (const connection of connections) connection.destroy();
    },
  };
}

/** HTTP/1.1 has a connection for each; the answer is read as it comes, its chunk heads included. */
async function openSse({ port, streams }: ReaderOptions, counting: Counting): Promise<ReaderSet> {
  let isClosed = false;
  const sockets = await bounded(streams, CONNECTING_MAX, async (stream) => {
    const socket = connect({ port, host: "127.0.0.1", noDelay: true });
    socket.on("error", () => undefined);
    await once(socket, "connect");
    const head = [
      `GET /${streamNameOf(stream)} HTTP/1.1`,
      `host: 127.0.0.1:${port}`,
      "accept: text/event-stream",
    ];
    socket.write(`${head.join("\r\n")}\r\n\r\n`);
    await once(socket, "readable");
    const first: unknown = socket.read();
    if (!Buffer.isBuffer(first) || !first.toString("latin1").startsWith("HTTP/1.1 200")) {
      throw new Error("the event stream was refused");
    }
    counting.received(countMarks(first));
    socket.on("data", (bytes) => counting.received(countMarks(bytes)));
    socket.on("close", () => {
      if (!isClosed) counting.failed("the connection ended");
    });
    return socket;
  });
  return {
    heartbeat: () => undefined,
    close: () => {
      isClosed = true;
      for (const socket of sockets) socket.destroy();
    },
  };
}

const OPENING_MAX = 256;

export async function connectAll({
  port,
  streams,
  perConnection,
}: ReaderOptions): Promise<readonly H2Connection[]> {
  return bounded(Math.ceil(streams / perConnection), CONNECTING_MAX, () => H2Connection.connect(port));
}

/** Runs `count` tasks, so many at a time, and gives their results in order. */
export async function bounded<Result>(
  count: number,
  atOnce: number,
  task: (index: number) => Promise<Result>,
): Promise<readonly Result[]> {
  const results: Result[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < count) {
      const index = next++;
      results[index] = await task(index);
    }
  };
  await Promise.all(Array.from({ length: Math.min(count, atOnce) }, work));
  return results;
}
