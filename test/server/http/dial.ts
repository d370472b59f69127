/**
 * Connections to a server on a port, frame by frame, over either transport.
 */
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { inspect } from "node:util";
import type { AttachFrame, ClientFrame, HoldfastError, ServerFrame } from "../../../src/protocol/index.ts";
import { fetchConnect } from "../../../src/transport/fetch-transport.ts";
import { http2Connect } from "../../../src/transport/node/http2-client.ts";
import type { Connect, Handler, Wire } from "../../../src/transport/index.ts";
import { ALICE_KEY, type HttpRig } from "./rig.ts";

export const STREAM_KEY = new Uint8Array(32).fill(9);

export type TransportName = "http2" | "fetch" | "listen";
export const TRANSPORTS: readonly TransportName[] = ["http2", "fetch", "listen"];

/** Its connections end with the test. */
export function transport(t: TestContext, rig: HttpRig, name: TransportName): Connect {
  const { url } = rig.http;
  const made = name === "http2" ? http2Connect({ url }) : fetchConnect({ url, shared: name === "listen" });
  t.after(() => made.close());
  return made.connect;
}

export const ATTACH: AttachFrame = {
  kind: "attach",
  protocolVersion: 1,
  mode: "open",
  role: "writer",
  eventId: 0,
  journalId: "journal",
  fresh: false,
  abort: false,
  firstChunk: undefined,
};

export const READ: AttachFrame = { ...ATTACH, mode: "resume", role: "reader", journalId: "" };

type Kind = ServerFrame["kind"];
type Of<K extends Kind> = Extract<ServerFrame, { kind: K }>;

const isOf =
  <K extends Kind>(kind: K) =>
  (frame: ServerFrame): frame is Of<K> =>
    frame.kind === kind;

/** One connection, and everything it was told. */
export class Dialed implements Handler<ServerFrame> {
  readonly frames: ServerFrame[] = [];
  readonly closed_: Promise<HoldfastError | undefined>;
  readonly #wire: Wire<ClientFrame>;
  readonly #settle: (reason: HoldfastError | undefined) => void;
  #wake: () => void = () => undefined;
  isClosed = false;

  constructor(connect: Connect, idempotencyKey: string, attach: AttachFrame = ATTACH, apiKey = ALICE_KEY) {
    const { promise, resolve } = Promise.withResolvers<HoldfastError | undefined>();
    this.closed_ = promise;
    this.#settle = resolve;
    this.#wire = connect({ idempotencyKey, streamKey: STREAM_KEY, credentials: apiKey }, this);
    this.#wire.write([attach]);
  }

  received(frame: ServerFrame): void {
    this.frames.push(frame);
    this.#wake();
  }

  drained(): void {
    return;
  }

  closed(reason: HoldfastError | undefined): void {
    this.isClosed = true;
    this.#settle(reason);
    this.#wake();
  }

  say(...frames: readonly ClientFrame[]): void {
    this.#wire.write(frames);
  }

  end(): void {
    this.#wire.end();
  }

  /** The first frame of a kind that passes, when it comes. */
  async get<K extends Kind>(kind: K, test: (frame: Of<K>) => boolean = () => true): Promise<Of<K>> {
    for (;;) {
      const found = this.frames.filter(isOf(kind)).find(test);
      if (found !== undefined) return found;
      // The last frame may be long: it is only written out when it is needed.
      if (this.isClosed) assert.fail(`closed before any ${kind}: ${inspect(this.frames.at(-1))}`);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  welcomed(): Promise<Of<"welcome">> {
    return this.get("welcome");
  }

  chunk(seqno: number, body: Uint8Array): void {
    this.say({ kind: "chunk", seqno, writerEpoch: 1, body });
  }
}
