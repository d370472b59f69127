/**
 * Appends to Durable Streams: a stream and a connection for each writer, one POST under way on each, as HTTP/1.1
 * has it. With readers, each stream has one that follows it by server-sent events.
 *
 * Raw sockets, as for the other servers: `node:http` would be the slower side of some.
 */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { countMarks, eventBody } from "../harness/body.ts";
import { busyMeter, serveCommands } from "../harness/child.ts";
import { type Arguments, flagIn, type Measured, numberIn } from "../harness/numbers.ts";
import { bounded } from "./readers.ts";

const body = eventBody().toString("latin1");
let appended = 0;
let events = 0;
let isRunning = false;
const writers: { socket: Socket; request: string }[] = [];
let failure: string | undefined;

async function open(given: Arguments): Promise<Measured> {
  const port = numberIn(given, "port");
  await bounded(numberIn(given, "connections"), 64, async (stream) => {
    const path = `/v1/stream/bench-${stream}`;
    const socket = await connected(port);
    await exchange(socket, request(port, "PUT", path, ""));
    if (flagIn(given, "readers")) await follow(port, path);
    const writer = { socket, request: request(port, "POST", path, body) };
    writers.push(writer);
    socket.on("data", (answer: Buffer) => {
      if (isAccepted(answer)) appended++;
      else failure ??= answer.toString("latin1");
      if (isRunning) socket.write(writer.request);
    });
  });
  return {};
}

async function connected(port: number): Promise<Socket> {
  const socket = connect({ port, host: "127.0.0.1", noDelay: true });
  socket.on("error", (error) => {
    failure ??= error.message;
  });
  await once(socket, "connect");
  return socket;
}

async function exchange(socket: Socket, text: string): Promise<void> {
  socket.write(text);
  const answer: unknown = await new Promise((resolve) => {
    socket.once("data", resolve);
  });
  if (!Buffer.isBuffer(answer) || !isAccepted(answer)) throw new Error(`refused: ${String(answer)}`);
}

async function follow(port: number, path: string): Promise<void> {
  const socket = await connected(port);
  await exchange(socket, request(port, "GET", `${path}?offset=-1&live=sse`, ""));
  socket.on("data", (bytes: Buffer) => {
    events += countMarks(bytes);
  });
}

function isAccepted(answer: Buffer): boolean {
  return answer.toString("latin1", 0, 10) === "HTTP/1.1 2";
}

function request(port: number, method: string, path: string, content: string): string {
  const head = [
    `${method} ${path} HTTP/1.1`,
    `host: 127.0.0.1:${port}`,
    "content-type: text/plain",
    `content-length: ${content.length}`,
  ];
  return `${head.join("\r\n")}\r\n\r\n${content}`;
}

function begin(): Measured {
  isRunning = true;
  for (const writer of writers) writer.socket.write(writer.request);
  return {};
}

async function measure(given: Arguments): Promise<Measured> {
  const busy = busyMeter();
  const startedMs = performance.now();
  const before = { appended, events };
  await new Promise((resolve) => {
    setTimeout(resolve, numberIn(given, "measureMs"));
  });
  const seconds = (performance.now() - startedMs) / 1000;
  if (failure !== undefined) throw new Error(`Durable Streams: ${failure}`);
  return {
    perSecond: (appended - before.appended) / seconds,
    deliveredPerSecond: (events - before.events) / seconds,
    loadBusy: busy()["busy"] ?? Number.NaN,
  };
}

serveCommands({ open, begin, measure });
