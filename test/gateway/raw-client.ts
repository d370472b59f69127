/**
 * A client on a socket of its own, that decides how its connection ends: in good order (FIN), by a reset (RST), or not yet.
 *
 * It always reads the whole response first, as a proxy does that then fails to pass it on.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { connect, type Socket } from "node:net";
import { ALICE_KEY } from "../server/http/rig.ts";
import { CHAT } from "./openai-user.ts";

export const ENDS = ["FIN", "RST"] as const;
export type End = (typeof ENDS)[number];

export interface RawAnswer {
  /** All of the model's words. */
  readonly text: string;
  readonly socket: Socket;
  /** Ends the connection, and resolves when it has ended here. */
  readonly hangUp: (end: End) => Promise<void>;
}

export interface RawAsking {
  readonly headers?: Readonly<Record<string, string>>;
  /** Of HTTP/1.1. */
  readonly connection?: "keep-alive" | "close";
  /** Of HTTP/1.1: one that has carried a response before. */
  readonly socket?: Socket;
}

export async function askRaw(port: number, body: string, asking: RawAsking = {}): Promise<RawAnswer> {
  const { connection = "keep-alive" } = asking;
  const { socket = await socketTo(port) } = asking;
  const headers = {
    ...headersOf(asking),
    host: "localhost",
    connection,
    "content-length": String(Buffer.byteLength(body)),
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  let read = "";
  const { promise: whole, resolve } = Promise.withResolvers<void>();
  const take = (piece: Buffer): void => {
    read += piece.toString();
    if (isWhole(read)) resolve();
  };
  socket.on("data", take);
  socket.write(`POST ${CHAT} HTTP/1.1\r\n${lines.join("")}\r\n${body}`);
  await Promise.race([whole, once(socket, "close").then(() => assert.fail(`it broke: ${read}`))]);
  socket.off("data", take);
  return { text: textOf(read), socket, hangUp: (end) => hangUp(socket, end) };
}

export async function askRaw2(port: number, body: string, asking: RawAsking = {}): Promise<RawAnswer> {
  const socket = await socketTo(port);
  const session = connectHttp2(`http://127.0.0.1:${port}`, { createConnection: () => socket });
  session.on("error", () => undefined);
  const stream = session.request({ ...headersOf(asking), ":method": "POST", ":path": CHAT });
  let read = "";
  stream.on("data", (piece: Buffer) => (read += piece.toString()));
  stream.end(body);
  await once(stream, "close");
  assert.equal(stream.rstCode, 0);
  return { text: textOf(read), socket, hangUp: (end) => hangUp(socket, end) };
}

async function socketTo(port: number): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => undefined);
  await once(socket, "connect");
  return socket;
}

function headersOf({ headers = {} }: RawAsking): Record<string, string> {
  return { authorization: `Bearer ${ALICE_KEY}`, "content-type": "application/json", ...headers };
}

async function hangUp(socket: Socket, end: End): Promise<void> {
  const closed = once(socket, "close");
  if (end === "RST") socket.resetAndDestroy();
  else socket.destroySoon();
  await closed;
}

function isWhole(read: string): boolean {
  const head = read.indexOf("\r\n\r\n");
  if (head === -1) return false;
  const length = /^content-length: (\d+)/im.exec(read.slice(0, head))?.[1];
  if (length === undefined) return read.endsWith("\r\n0\r\n\r\n");
  return Buffer.byteLength(read) >= head + 4 + Number(length);
}

/** Of an answer in one piece, or of all deltas. */
export function textOf(read: string): string {
  return [...read.matchAll(/"content":"([^"]*)"/g)].map(([, words = ""]) => words).join("");
}
