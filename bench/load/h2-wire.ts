/**
 * As little HTTP/2 client as will do: enough to open calls and to read their data.
 *
 * `node:http2` as the load would cost as much as the servers under test, and the slower of the two
 * would be measured. This reader costs a fraction of them. It gives windows so large that it never has to
 * update a stream's, compresses no headers, and treats everything unexpected as an error.
 */
import { connect, type Socket } from "node:net";
import { once } from "node:events";

export interface CallHandler {
  /** The answer's headers are there; false when the status is not 200. */
  opened(isOk: boolean): void;
  data(bytes: Buffer): void;
  /** The call or its connection is over. */
  over(): void;
}

export type Headers = Readonly<Record<string, string>>;

const DATA = 0;
const HEADERS = 1;
const RST_STREAM = 3;
const SETTINGS = 4;
const PING = 6;
const GOAWAY = 7;
const WINDOW_UPDATE = 8;

const FLAG_ACK = 1;
const FLAG_END_STREAM = 1;
const FLAG_END_HEADERS = 4;
const FLAG_PADDED = 8;

const FRAME_HEAD_BYTES = 9;
const WINDOW_MAX = 2 ** 31 - 1;
const FIRST_WINDOW = 65_535;
/** The static table's entry for ":status: 200", which servers send as one byte. */
const STATUS_200 = 0x88;

const PREFACE = Buffer.concat([
  Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
  frame(SETTINGS, 0, 0, Buffer.concat([setting(2, 0), setting(4, WINDOW_MAX)])),
  frame(WINDOW_UPDATE, 0, 0, uint32(WINDOW_MAX - FIRST_WINDOW)),
]);

export class H2Connection {
  readonly #socket: Socket;
  readonly #authority: string;
  readonly #calls = new Map<number, CallHandler>();
  #rest: Buffer = Buffer.alloc(0);
  #nextCall = 1;
  #unreturned = 0;

  static async connect(port: number): Promise<H2Connection> {
    const socket = connect({ port, host: "127.0.0.1", noDelay: true });
    await once(socket, "connect");
    return new H2Connection(socket, port);
  }

  private constructor(socket: Socket, port: number) {
    this.#socket = socket;
    this.#authority = `127.0.0.1:${port}`;
    socket.on("error", () => undefined);
    socket.on("close", () => this.#close());
    socket.on("data", (chunk) => this.#received(chunk));
    socket.write(PREFACE);
  }

  /** A call whose request stays open; returns its number. */
  open(path: string, headers: Headers, handler: CallHandler): number {
    const call = this.#nextCall;
    this.#nextCall += 2;
    this.#calls.set(call, handler);
    const all = {
      ":method": "POST",
      ":scheme": "http",
      ":authority": this.#authority,
      ":path": path,
      ...headers,
    };
    this.#socket.write(frame(HEADERS, FLAG_END_HEADERS, call, headerBlock(all)));
    return call;
  }

  /**
   * The peer's windows are not tracked: callers keep little enough under way (the rows bound what is
   * unacknowledged) for the smallest window there is.
   */
  send(call: number, bytes: Uint8Array): void {
    this.#socket.write(frame(DATA, 0, call, bytes));
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #received(chunk: Buffer): void {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    let at = 0;
    while (bytes.length - at >= FRAME_HEAD_BYTES) {
      const length = bytes.readUIntBE(at, 3);
      const end = at + FRAME_HEAD_BYTES + length;
      if (end > bytes.length) break;
      this.#frame(
        bytes[at + 3] ?? 0,
        bytes[at + 4] ?? 0,
        bytes.readUInt32BE(at + 5),
        bytes,
        at + FRAME_HEAD_BYTES,
        end,
      );
      at = end;
    }
    this.#rest = at === bytes.length ? Buffer.alloc(0) : bytes.subarray(at);
  }

  #frame(type: number, flags: number, call: number, bytes: Buffer, start: number, end: number): void {
    switch (type) {
      case DATA:
        this.#return(end - start);
        if ((flags & FLAG_PADDED) !== 0) throw new Error("a server that pads is not expected");
        this.#calls.get(call)?.data(bytes.subarray(start, end));
        if ((flags & FLAG_END_STREAM) !== 0) this.#over(call);
        return;
      case HEADERS:
        if ((flags & FLAG_END_STREAM) === 0) this.#calls.get(call)?.opened(bytes[start] === STATUS_200);
        else this.#over(call);
        return;
      case RST_STREAM:
        this.#over(call);
        return;
      case SETTINGS:
        if ((flags & FLAG_ACK) === 0) this.#socket.write(frame(SETTINGS, FLAG_ACK, 0, new Uint8Array()));
        return;
      case PING:
        if ((flags & FLAG_ACK) === 0)
          this.#socket.write(frame(PING, FLAG_ACK, 0, bytes.subarray(start, end)));
        return;
      case GOAWAY:
        this.#socket.destroy();
        return;
      default:
        // Window updates and whatever else does not concern a reader.
        return;
    }
  }

  /** Gives the connection's window back, rarely. */
  #return(byteCount: number): void {
    this.#unreturned += byteCount;
    if (this.#unreturned < WINDOW_MAX / 4) return;
    this.#socket.write(frame(WINDOW_UPDATE, 0, 0, uint32(this.#unreturned)));
    this.#unreturned = 0;
  }

  #over(call: number): void {
    const handler = this.#calls.get(call);
    this.#calls.delete(call);
    handler?.over();
  }

  #close(): void {
    for (const call of this.#calls.keys()) this.#over(call);
  }
}

function frame(type: number, flags: number, call: number, payload: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(FRAME_HEAD_BYTES + payload.length);
  bytes.writeUIntBE(payload.length, 0, 3);
  bytes[3] = type;
  bytes[4] = flags;
  bytes.writeUInt32BE(call, 5);
  bytes.set(payload, FRAME_HEAD_BYTES);
  return bytes;
}

function uint32(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

function setting(id: number, value: number): Buffer {
  const bytes = Buffer.allocUnsafe(6);
  bytes.writeUInt16BE(id);
  bytes.writeUInt32BE(value, 2);
  return bytes;
}

/** Literal fields that enter no table: the longest form, and the simplest. */
function headerBlock(headers: Headers): Buffer {
  return Buffer.concat(
    Object.entries(headers).flatMap(([name, value]) => [Buffer.from([0]), literal(name), literal(value)]),
  );
}

function literal(text: string): Buffer {
  if (text.length < 127) return Buffer.concat([Buffer.from([text.length]), Buffer.from(text)]);
  const rest = text.length - 127;
  if (rest > 127) throw new Error("a header of the benchmark is short");
  return Buffer.concat([Buffer.from([127, rest]), Buffer.from(text)]);
}
