/**
 * The child's end of a benchmark process: named commands over the IPC channel of `child_process`.
 *
 * A child that loses its parent ends, so an interrupted run leaves nothing behind.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { argumentsOf, type Arguments, isRecord, type Measured } from "./numbers.ts";

export type Command = (given: Arguments) => Promise<Measured> | Measured;

export function serveCommands(commands: Readonly<Record<string, Command>>): void {
  const all = { usage, ...commands };
  process.on("message", (message: unknown) => {
    void answer(all, message);
  });
  process.on("disconnect", () => process.exit(0));
  process.send?.({ ready: true });
}

async function answer(commands: Readonly<Record<string, Command>>, message: unknown): Promise<void> {
  if (!isRecord(message)) return;
  const { call } = message;
  try {
    const command = commands[String(message["name"])];
    if (command === undefined) throw new Error(`there is no command ${String(message["name"])}`);
    process.send?.({ call, result: await command(argumentsOf(message["given"])) });
  } catch (cause) {
    process.send?.({ call, error: cause instanceof Error ? (cause.stack ?? cause.message) : String(cause) });
  }
}

/** Of this process since it began; worker threads included. With `--expose-gc` its memory is what is really in use. */
async function usage(): Promise<Measured> {
  const { user, system } = process.cpuUsage();
  await giveBack();
  const memory = process.memoryUsage();
  return {
    cpuMs: (user + system) / 1000,
    rssBytes: memory.rss,
    heapBytes: memory.heapUsed,
    externalBytes: memory.external,
  };
}

/** An ordinary collection keeps the pages that a burst of openings needed; this kind gives them back. */
async function giveBack(): Promise<void> {
  if (globalThis.gc === undefined) return;
  for (let times = 0; times < 3; times++) {
    await globalThis.gc({ type: "major", execution: "async", flavor: "last-resort" });
  }
  await sleep(300);
}

/** How much of one core is used between two moments. */
export function busyMeter(): () => Measured {
  const startedUs = process.cpuUsage();
  const startedMs = performance.now();
  return () => {
    const { user, system } = process.cpuUsage(startedUs);
    return { busy: (user + system) / 1000 / (performance.now() - startedMs), cpuMs: (user + system) / 1000 };
  };
}
