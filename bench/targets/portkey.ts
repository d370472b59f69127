/**
 * Portkey's gateway as its package starts it, without its page of logs and without the timer that holds each first chunk back.
 */
import { once } from "node:events";
import { createRequire, registerHooks } from "node:module";
import { connect, createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { busyMeter, serveCommands } from "../harness/child.ts";
import { listening } from "../harness/credit.ts";
import type { Measured } from "../harness/numbers.ts";

const TRIES = 100;
const TRY_AFTER_MS = 20;

/**
 * With the server library that its package brings today it changes headers that cannot be changed, and answers every stream with
 * status 500 (Portkey-AI/gateway, issue 1389). A copy of the provider's response has headers of its own; that costs microseconds.
 */
function giveOwnHeaders(): void {
  const { fetch: call, Response: Own } = globalThis;
  globalThis.fetch = async (...given) => {
    const response = await call(...given);
    return new Own(response.body, response);
  };
}

/** In its built file: the first chunk of each stream waits for 25 ms, by a timer that exists for one provider's sake. */
const PAUSE = "await new Promise((e=>setTimeout(e,25)))";

/** Patches the text of the file as it is loaded; nothing on the disk changes. Another version that pauses elsewhere is refused. */
function withoutPause(file: string): void {
  registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context);
      if (url !== file) return loaded;
      const parts = Buffer.from(sourceOf(loaded.source)).toString().split(PAUSE);
      if (parts.length !== 2) throw new Error(`the pause is ${parts.length - 1} times in ${file}`);
      return { ...loaded, source: parts.join("void 0") };
    },
  });
}

function sourceOf(source: unknown): Uint8Array {
  if (source instanceof Uint8Array) return source;
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  return Buffer.from(String(source));
}

let busy: (() => Measured) | undefined;

/** It takes its port from the command line and tells nobody when it listens. */
async function start(): Promise<Measured> {
  const port = await freePort();
  giveOwnHeaders();
  process.env["NODE_ENV"] = "production";
  process.argv.push(`--port=${port}`, "--headless");
  const file = createRequire(import.meta.url).resolve("@portkey-ai/gateway/build/start-server.js");
  withoutPause(pathToFileURL(file).href);
  await import(file);
  for (let tries = 0; tries < TRIES; tries++) {
    if (await isListening(port)) return { port };
    await sleep(TRY_AFTER_MS);
  }
  throw new Error("Portkey's gateway does not listen");
}

async function freePort(): Promise<number> {
  const server = createServer();
  const port = await listening(server);
  server.close();
  await once(server, "close");
  return port;
}

async function isListening(port: number): Promise<boolean> {
  const socket = connect({ port, host: "127.0.0.1" });
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

serveCommands({
  start,
  count() {
    busy = busyMeter();
    return {};
  },
  counted() {
    return { serverCpuMs: busy?.()["cpuMs"] ?? Number.NaN };
  },
});
