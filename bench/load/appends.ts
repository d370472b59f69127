/**
 * Appends over Holdfast's bidirectional call: so many writers on a connection each, each with so many chunks
 * unacknowledged. Counts acks, and events where the application echoes.
 */
import { busyMeter, serveCommands } from "../harness/child.ts";
import { eventBody } from "../harness/body.ts";
import { apiKeyOf, streamNameOf } from "../harness/names.ts";
import { type Arguments, type Measured, numberIn } from "../harness/numbers.ts";
import { H2Connection } from "./h2-wire.ts";
import { HoldfastCall } from "./holdfast-call.ts";
import { bounded } from "./readers.ts";

const body = eventBody();
let acked = 0;
let events = 0;
const failures: string[] = [];
let isRunning = false;
const writers: { call: HoldfastCall; next: number; acked: number }[] = [];
let unackedMax = 1;

function say(writer: (typeof writers)[number]): void {
  if (!isRunning) return;
  while (writer.next - writer.acked < unackedMax) {
    // A first writer's epoch is 1.
    writer.call.say({ kind: "chunk", seqno: writer.next++, writerEpoch: 1, body });
  }
}

async function open(given: Arguments): Promise<Measured> {
  const port = numberIn(given, "port");
  unackedMax = numberIn(given, "unacked");
  await bounded(numberIn(given, "connections"), 64, async (stream) => {
    const connection = await H2Connection.connect(port);
    await new Promise<void>((resolve, reject) => {
      const attach = { mode: "open", role: "writer", eventId: 0 } as const;
      const named = { idempotencyKey: streamNameOf(stream), apiKey: apiKeyOf(stream) };
      const call = new HoldfastCall(
        connection,
        { ...named, ...attach },
        {
          welcome: () => resolve(),
          event: () => events++,
          ack: (seqno) => {
            acked += seqno + 1 - writer.acked;
            writer.acked = seqno + 1;
            say(writer);
          },
          failed: (why) => {
            failures.push(why);
            reject(new Error(why));
          },
        },
      );
      const writer = { call, next: 0, acked: 0 };
      writers.push(writer);
    });
  });
  return {};
}

function begin(): Measured {
  isRunning = true;
  for (const writer of writers) say(writer);
  return {};
}

async function measure(given: Arguments): Promise<Measured> {
  const busy = busyMeter();
  const startedMs = performance.now();
  const before = { acked, events };
  await new Promise((resolve) => {
    setTimeout(resolve, numberIn(given, "measureMs"));
  });
  const seconds = (performance.now() - startedMs) / 1000;
  if (failures.length > 0) throw new Error(`a writer failed: ${String(failures[0])}`);
  return {
    perSecond: (acked - before.acked) / seconds,
    deliveredPerSecond: (events - before.events) / seconds,
    loadBusy: busy()["busy"] ?? Number.NaN,
  };
}

serveCommands({ open, begin, measure });
