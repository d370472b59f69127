/**
 * A reader that attaches and then takes nothing from its socket.
 */
import type { Socket } from "node:net";
import { connect as http2Connect } from "node:http2";
import type { TestContext } from "node:test";
import { encodeClientFrame } from "../../../src/protocol/index.ts";
import { encodeBase64Url } from "../../../src/transport/connect/base64.ts";
import { envelopes } from "../../../src/transport/connect/envelopes.ts";
import { READ, STREAM_KEY } from "./dial.ts";
import { ALICE_KEY, bearer, type HttpRig, openSocket, type Version } from "./rig.ts";

const PATH = "/holdfast.v1.StreamService/Attach";

export function attachHeaders(idempotencyKey: string): Record<string, string> {
  return {
    ...bearer(ALICE_KEY),
    "content-type": "application/connect+proto",
    "x-idempotency-key": idempotencyKey,
    "x-idempotent-encryption-key": encodeBase64Url(STREAM_KEY),
  };
}

export async function slowReader(
  t: TestContext,
  rig: HttpRig,
  version: Version,
  idempotencyKey: string,
): Promise<Pick<Socket, "destroy">> {
  const body = envelopes([encodeClientFrame(READ, idempotencyKey)]);
  const headers = attachHeaders(idempotencyKey);
  const socket = await openSocket(t, rig);
  if (version === 1) {
    const lines = Object.entries({ host: "localhost", "content-length": body.length, ...headers });
    const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join("");
    socket.pause();
    socket.write(`POST ${PATH} HTTP/1.1\r\n${head}\r\n`);
    socket.write(body);
    return socket;
  }
  const session = http2Connect(rig.http.url, { createConnection: () => socket });
  session.on("error", () => undefined);
  t.after(() => session.destroy());
  const stream = session.request({ ...headers, ":method": "POST", ":path": PATH }, { endStream: false });
  stream.on("error", () => undefined);
  // Nobody reads the stream, so its window fills up.
  stream.end(body);
  return { destroy: () => (session.destroy(), socket) };
}
