/**
 * One client that comes back to a stream and reads what it missed.
 */
import { once } from "node:events";
import { nowUs } from "../harness/body.ts";
import { serveCommands } from "../harness/child.ts";
import { apiKeyOf, streamNameOf } from "../harness/names.ts";
import { type Arguments, type Measured, numberIn } from "../harness/numbers.ts";
import { EventEmitter } from "node:events";
import { H2Connection } from "./h2-wire.ts";
import { bodyOffset, HoldfastCall } from "./holdfast-call.ts";

/** Opens a stream and leaves it. */
async function visit(given: Arguments): Promise<Measured> {
  const connection = await H2Connection.connect(numberIn(given, "port"));
  const done = new EventEmitter();
  const welcomed = once(done, "welcome");
  const call = new HoldfastCall(
    connection,
    { ...named(numberIn(given, "stream")), mode: "open", role: "writer", eventId: 0 },
    {
      welcome: () => done.emit("welcome"),
      event: () => undefined,
      ack: () => undefined,
      failed: (why) => done.emit("error", new Error(why)),
    },
  );
  await welcomed;
  call.leave();
  connection.destroy();
  return {};
}

/** Attaches to it again, on a new connection, and reads from the beginning to `events`. */
async function comeBack(given: Arguments): Promise<Measured> {
  const events = numberIn(given, "events");
  const startedUs = nowUs();
  const connection = await H2Connection.connect(numberIn(given, "port"));
  const measured = await new Promise<Measured>((resolve, reject) => {
    let frames = 0;
    let bytes = 0;
    let firstUs = 0;
    let head = 0;
    const call = new HoldfastCall(
      connection,
      { ...named(0), mode: "resume", role: "writer", eventId: 0 },
      {
        welcome: () => undefined,
        event(buffer, start, end) {
          if (frames++ === 0) firstUs = nowUs() - startedUs;
          bytes += end - bodyOffset(buffer, start);
          head = eventIdOf(buffer, start);
          if (head < events) return;
          call.leave();
          const lastUs = nowUs() - startedUs;
          resolve({
            firstMs: firstUs / 1000,
            lastMs: lastUs / 1000,
            megabytesPerSecond: bytes / lastUs,
            frames,
          });
        },
        ack: () => undefined,
        failed: (why) => reject(new Error(why)),
      },
    );
  });
  connection.destroy();
  return measured;
}

function named(stream: number): { idempotencyKey: string; apiKey: string } {
  return { idempotencyKey: streamNameOf(stream), apiKey: apiKeyOf(stream) };
}

function eventIdOf(bytes: Buffer, start: number): number {
  let at = start + 1;
  while ((bytes[at] ?? 0) > 0x7f) at++;
  const length = bytes[at + 2] ?? 0;
  return Number(bytes.toString("latin1", at + 3, at + 3 + length));
}

serveCommands({ visit, comeBack });
