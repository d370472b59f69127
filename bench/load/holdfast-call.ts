/**
 * One stream of Holdfast as the load sees it: the frames of the protocol without the client around them.
 *
 * `src/client` keeps a journal and derives keys; as a load it would be the slower side. What is sent
 * here is what it sends. Events are told apart by their first byte and are not decoded.
 */
import { encodeClientFrame } from "../../src/protocol/frame-codec.ts";
import type { AttachMode, ClientFrame, Role } from "../../src/protocol/frames.ts";
import { PROTOCOL_VERSION } from "../../src/protocol/limits.ts";
import type { H2Connection } from "./h2-wire.ts";

export interface CallListener {
  welcome(call: HoldfastCall): void;
  /** `bytes` from `start` to `end` are one StreamResponse with a server_chunk. */
  event(bytes: Buffer, start: number, end: number): void;
  ack(seqno: number, call: HoldfastCall): void;
  failed(why: string): void;
}

export interface CallOptions {
  readonly idempotencyKey: string;
  readonly apiKey: string;
  readonly mode: AttachMode;
  readonly role: Role;
  readonly eventId: number;
}

const SERVER_CHUNK = 0x0a;
const WELCOME = 0x1a;
const ACK = 0x20;
const ERROR = 0x32;

const ENVELOPE_BYTES = 5;
const FLAG_END = 2;

/** All streams of a run have one stream key; each is sealed under keys of its own all the same. */
const STREAM_KEY = Buffer.alloc(32, 7).toString("base64url");

export class HoldfastCall {
  readonly idempotencyKey: string;
  readonly #connection: H2Connection;
  readonly #listener: CallListener;
  readonly #number: number;
  #rest: Buffer = Buffer.alloc(0);
  #isOver = false;

  constructor(connection: H2Connection, options: CallOptions, listener: CallListener) {
    this.#connection = connection;
    this.#listener = listener;
    this.idempotencyKey = options.idempotencyKey;
    const { mode, role, eventId } = options;
    this.#number = connection.open("/holdfast.v1.StreamService/Stream", headersOf(options), {
      opened: (isOk) => {
        if (!isOk) this.#fail("refused");
      },
      data: (bytes) => this.#received(bytes),
      over: () => this.#fail("the connection ended"),
    });
    this.say({
      kind: "attach",
      protocolVersion: PROTOCOL_VERSION,
      mode,
      role,
      eventId,
      journalId: role === "writer" ? `journal-${options.idempotencyKey}` : "",
      fresh: false,
      abort: false,
      firstChunk: undefined,
    });
  }

  say(frame: ClientFrame): void {
    const named = frame.kind === "attach" || frame.kind === "abort";
    this.#connection.send(this.#number, envelope(encodeClientFrame(frame, named ? this.idempotencyKey : "")));
  }

  heartbeat(): void {
    if (!this.#isOver) this.say({ kind: "heartbeat", runningExecIds: [] });
  }

  /** Nothing that comes now is of interest. */
  leave(): void {
    this.#isOver = true;
  }

  #received(chunk: Buffer): void {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    let at = 0;
    while (bytes.length - at >= ENVELOPE_BYTES) {
      const end = at + ENVELOPE_BYTES + bytes.readUInt32BE(at + 1);
      if (end > bytes.length) break;
      if (!this.#isOver) this.#frame(bytes, at, end);
      at = end;
    }
    this.#rest = at === bytes.length ? Buffer.alloc(0) : bytes.subarray(at);
  }

  #frame(bytes: Buffer, at: number, end: number): void {
    if (((bytes[at] ?? 0) & FLAG_END) !== 0)
      return this.#fail(bytes.toString("utf8", at + ENVELOPE_BYTES, end));
    const start = at + ENVELOPE_BYTES;
    switch (bytes[start]) {
      case SERVER_CHUNK:
        return this.#listener.event(bytes, start, end);
      case WELCOME:
        return this.#listener.welcome(this);
      case ACK:
        return this.#listener.ack(varintAt(bytes, start + 1), this);
      case ERROR:
        return this.#fail(bytes.toString("latin1", start, end));
      default:
        return;
    }
  }

  #fail(why: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#listener.failed(`${this.idempotencyKey}: ${why}`);
  }
}

/** Where the body of an event begins, in the bytes that `event` was called with. */
export function bodyOffset(bytes: Buffer, start: number): number {
  let at = afterVarint(bytes, start + 1);
  // event_id, a text shorter than 128
  if (bytes[at] === 0x0a) at += 2 + (bytes[at + 1] ?? 0);
  if (bytes[at] !== 0x12) throw new Error("an event of the benchmark has a body");
  return afterVarint(bytes, at + 1);
}

function envelope(message: Uint8Array): Uint8Array {
  const bytes = Buffer.allocUnsafe(ENVELOPE_BYTES + message.length);
  bytes[0] = 0;
  bytes.writeUInt32BE(message.length, 1);
  bytes.set(message, ENVELOPE_BYTES);
  return bytes;
}

function headersOf({ idempotencyKey, apiKey, eventId }: CallOptions): Record<string, string> {
  return {
    "content-type": "application/connect+proto",
    "connect-protocol-version": "1",
    authorization: `Bearer ${apiKey}`,
    "x-idempotency-key": idempotencyKey,
    "x-idempotency-event-id": String(eventId),
    "x-idempotent-encryption-key": STREAM_KEY,
  };
}

function afterVarint(bytes: Buffer, start: number): number {
  let at = start;
  while ((bytes[at] ?? 0) > 0x7f) at++;
  return at + 1;
}

function varintAt(bytes: Buffer, start: number): number {
  let value = 0;
  for (let at = start, shift = 0; ; at++, shift += 7) {
    const byte = bytes[at] ?? 0;
    value += (byte & 0x7f) * 2 ** shift;
    if (byte <= 0x7f) return value;
  }
}
