/**
 * Portkey's gateway as its package starts it, without its page of logs: as lean as it comes.
 */
import { once } from "node:events";
import { createRequire } from "node:module";
import { connect, createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
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

let busy: (() => Measured) | undefined;

/** It takes its port from the command line and tells nobody when it listens. */
async function start(): Promise<Measured> {
  const port = await freePort();
  giveOwnHeaders();
  process.env["NODE_ENV"] = "production";
  process.argv.push(`--port=${port}`, "--headless");
  await import(createRequire(import.meta.url).resolve("@portkey-ai/gateway/build/start-server.js"));
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
