/**
 * A TCP proxy between a store and its server that loses what a test wants lost. It knows just enough of PostgreSQL's protocol to find a commit on its way.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";

/**
 * What happens to the next commit that passes, or to the next connection that begins to listen:
 * - `request`: the connection is cut before the server sees the commit;
 * - `answer`: the server commits, and the connection is cut before the answer passes;
 * - `late`: the connection is cut, and the whole group reaches the server only when the test says so, over a connection of the pooler's;
 * - `silence`: the server commits, and nothing passes on this connection any more, though it stays open;
 * - `listening`: the server is never asked to listen, though the connection stays open.
 */
export type Loss = "request" | "answer" | "late" | "silence" | "listening";

export interface Proxy {
  readonly port: number;
  /** Resolves when it has happened. */
  lose(loss: Loss): Promise<void>;
  /** Lets the server have what was held back; resolves with what it says. */
  deliver(): Promise<string>;
  cutAll(): void;
  close(): Promise<void>;
}

/** A simple query with just this text. */
const COMMIT_REQUEST = Buffer.from("COMMIT\0");
const COMMIT_ANSWER = Buffer.from("COMMIT\0");
const LISTEN_REQUEST = Buffer.from("LISTEN ");
const BEGIN_REQUEST = Buffer.from("BEGIN; SET LOCAL synchronous_commit");
/** A kind and a length stand before the text. */
const HEAD_BYTES = 5;

export interface ProxyOptions {
  /** Greets with another process than the one that answers, as a pooler does. */
  readonly isPooler?: boolean;
}

/** The server names its process in this message, of 12 bytes behind the kind. */
const KEY_DATA = Buffer.from([0x4b, 0, 0, 0, 12]);

export async function startProxy(
  serverPort: number,
  { isPooler = false }: ProxyOptions = {},
): Promise<Proxy> {
  const sockets = new Set<Socket>();
  let next: { readonly loss: Loss; readonly done: () => void } | undefined;
  let held: { readonly greeting: Buffer; readonly bytes: Buffer } | undefined;

  const take = (...losses: readonly Loss[]): typeof next => {
    if (next === undefined || !losses.includes(next.loss)) return undefined;
    const taken = next;
    next = undefined;
    return taken;
  };

  const server = createServer((downstream) => {
    const upstream = connect(serverPort, "127.0.0.1");
    let isSilent = false;
    let greeting: Buffer | undefined;
    for (const socket of [downstream, upstream]) {
      socket.setNoDelay(true);
      sockets.add(socket);
      socket.on("error", () => undefined);
      socket.on("close", () => sockets.delete(socket));
    }
    downstream.on("data", (bytes: Buffer) => {
      greeting ??= bytes;
      if (bytes.includes(LISTEN_REQUEST)) {
        const unheard = take("listening");
        if (unheard !== undefined) return unheard.done();
      }
      const begins = bytes.indexOf(BEGIN_REQUEST);
      const late = begins === -1 ? undefined : take("late");
      if (late !== undefined) {
        held = { greeting, bytes: bytes.subarray(begins - HEAD_BYTES) };
        downstream.destroy();
        return late.done();
      }
      const at = bytes.lastIndexOf(COMMIT_REQUEST);
      const cut = at === -1 ? undefined : take("request");
      if (cut === undefined) return void upstream.write(bytes);
      upstream.write(bytes.subarray(0, at - HEAD_BYTES), () => {
        upstream.destroy();
        downstream.destroy();
        cut.done();
      });
    });
    upstream.on("data", (bytes: Buffer) => {
      if (isSilent) return;
      const key = isPooler ? bytes.indexOf(KEY_DATA) : -1;
      if (key !== -1) bytes.writeInt32BE(1, key + KEY_DATA.byteLength);
      const cut = bytes.indexOf(COMMIT_ANSWER) === -1 ? undefined : take("answer", "silence");
      if (cut === undefined) return void downstream.write(bytes);
      isSilent = true;
      if (cut.loss === "answer") downstream.destroy();
      cut.done();
    });
    downstream.on("close", () => upstream.destroy());
    upstream.on("close", () => downstream.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  assert.ok(typeof address === "object" && address !== null);
  return {
    port: address.port,
    lose: (loss) => new Promise((done) => (next = { loss, done })),
    async deliver() {
      assert.ok(held !== undefined, "nothing is held back");
      const { greeting, bytes } = held;
      const upstream = connect(serverPort, "127.0.0.1");
      upstream.write(greeting);
      await once(upstream, "data");
      const answers: Buffer[] = [];
      upstream.on("data", (answer: Buffer) => answers.push(answer));
      // A goodbye behind the group: the server answers everything, and closes.
      upstream.write(Buffer.concat([bytes, Buffer.from([0x58, 0, 0, 0, 4])]));
      await once(upstream, "close");
      return Buffer.concat(answers).toString("latin1");
    },
    cutAll() {
      for (const socket of sockets) socket.destroy();
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
