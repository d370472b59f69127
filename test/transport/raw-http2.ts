/** HTTP/2 frame by frame, for what Node's own client would never send. */
import type { Socket } from "node:net";

export const TYPES = { data: 0, headers: 1, reset: 3, settings: 4, ping: 6, goaway: 7 } as const;
export const ACK = 0x1;
export const END_STREAM = 0x1;
export const END_HEADERS = 0x4;
const HEAD_BYTES = 9;

export function frame(type: number, flags: number, streamId: number, payload: Uint8Array): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(streamId, 5);
  return Buffer.concat([head, payload]);
}

/** What a client begins with: the preface and empty settings. */
export function hello(): Buffer {
  const settings = frame(TYPES.settings, 0, 0, new Uint8Array());
  return Buffer.concat([Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), settings]);
}

/** A POST whose body goes on. Names and values must be short. */
export function post(streamId: number, path: string): Buffer {
  const headers = { ":method": "POST", ":scheme": "http", ":path": path, ":authority": "localhost" };
  const text = (value: string): Buffer => Buffer.concat([Buffer.from([value.length]), Buffer.from(value)]);
  const fields = Object.entries(headers).map(([name, value]) =>
    Buffer.concat([Buffer.from([0]), text(name), text(value)]),
  );
  return frame(TYPES.headers, END_HEADERS, streamId, Buffer.concat(fields));
}

export function reset(streamId: number, code: number): Buffer {
  const payload = Buffer.alloc(4);
  payload.writeUInt32BE(code);
  return frame(TYPES.reset, 0, streamId, payload);
}

/** The client leaves; the code says why. */
export function goAway(code: number): Buffer {
  const payload = Buffer.alloc(8);
  payload.writeUInt32BE(code, 4);
  return frame(TYPES.goaway, 0, 0, payload);
}

/** Answers settings and pings as an honest client does, and nothing else. */
export function answerPings(socket: Socket): void {
  let seen = Buffer.alloc(0);
  socket.on("data", (piece: Buffer) => {
    seen = Buffer.concat([seen, piece]);
    while (seen.length >= HEAD_BYTES) {
      const end = HEAD_BYTES + seen.readUIntBE(0, 3);
      if (seen.length < end) return;
      const type = seen.readUInt8(3);
      const isAsked = (seen.readUInt8(4) & ACK) === 0;
      if (type === TYPES.ping && isAsked) socket.write(frame(type, ACK, 0, seen.subarray(HEAD_BYTES, end)));
      if (type === TYPES.settings && isAsked) socket.write(frame(type, ACK, 0, new Uint8Array()));
      seen = seen.subarray(end);
    }
  });
}
