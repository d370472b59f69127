/**
 * `resumable-stream` over Redis behind a plain `node:http` server, as its README shows it: server-sent events
 * from `createNewResumableStream`, or from `resumeExistingStream` for a client that came back.
 *
 * Redis runs as a child on a socket file, keeps nothing on disk, and may use both cores.
 */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "redis";
import {
  createResumableStreamContext,
  type Publisher,
  type ResumableStreamContext,
  type Subscriber,
} from "resumable-stream/generic";
import { EVENT_BYTES, eventBody } from "../harness/body.ts";
import { serveCommands } from "../harness/child.ts";
import { listening } from "../harness/credit.ts";
import { type Arguments, flagIn, type Measured, textIn } from "../harness/numbers.ts";
import { Emission } from "./emission.ts";

const emission = new Emission();
const event = `id: 123456\ndata: ${eventBody(EVENT_BYTES).toString("latin1")}\n\n`;

async function start(given: Arguments): Promise<Measured> {
  const path = await startRedis(textIn(given, "directory"));
  const context = createResumableStreamContext({ waitUntil: null, ...(await connectRedis(path)) });
  const isResumed = flagIn(given, "resumed");
  const server = createServer((request, response) => {
    void answer(context, isResumed, request, response);
  });
  return { port: await listening(server), creditPort: (await emission.listen()).port };
}

async function connectRedis(path: string): Promise<{ publisher: Publisher; subscriber: Subscriber }> {
  const writing = createClient({ socket: { path, tls: false } });
  const hearing = createClient({ socket: { path, tls: false } });
  await Promise.all([writing.connect(), hearing.connect()]);
  return {
    publisher: {
      connect: async () => undefined,
      publish: (channel, message) => writing.publish(channel, message),
      set: (key, value, options) => writing.set(key, value, options),
      get: (key) => writing.get(key),
      incr: (key) => writing.incr(key),
    },
    subscriber: {
      connect: async () => undefined,
      subscribe: (channel, callback) => hearing.subscribe(channel, callback),
      unsubscribe: (channel) => hearing.unsubscribe(channel),
    },
  };
}

async function answer(
  context: ResumableStreamContext,
  isResumed: boolean,
  { url = "" }: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const first = await context.createNewResumableStream(url, emitted);
  if (isResumed) void discard(first);
  const stream = isResumed ? await context.resumeExistingStream(url) : first;
  if (stream === null || stream === undefined) throw new Error("the stream is not there");
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
  response.flushHeaders();
  for await (const text of stream) response.write(Buffer.from(text));
}

/** What a model says, as a stream of texts. */
function emitted(): ReadableStream<string> {
  return new ReadableStream<string>({
    start(controller) {
      emission.add(() => controller.enqueue(event));
    },
  });
}

/** The client that was there first and has gone: somebody must read, or its buffer grows for ever. */
async function discard(stream: ReadableStream<string> | null): Promise<void> {
  if (stream === null) return;
  for await (const _text of stream);
}

async function startRedis(directory: string): Promise<string> {
  const path = `${directory}/redis.sock`;
  const both = existsSync("/usr/bin/taskset") ? ["/usr/bin/taskset", "-c", "0,1"] : [];
  const args = ["--port", "0", "--unixsocket", path, "--dir", directory, "--save", "", "--appendonly", "no"];
  const [command = "redis-server", ...rest] = [...both, "redis-server", ...args];
  const redis = spawn(command, rest, { stdio: "ignore" });
  process.on("exit", () => redis.kill("SIGKILL"));
  for (let tries = 0; !existsSync(path); tries++) {
    if (tries > 500) throw new Error("redis-server did not start");
    await sleep(10);
  }
  return path;
}

serveCommands({ ...emission.commands, start });
