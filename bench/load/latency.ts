/**
 * Readers that look at when an event was emitted: the time from there to here, over all events.
 */
import { nowUs } from "../harness/body.ts";
import { serveCommands } from "../harness/child.ts";
import { apiKeyOf, streamNameOf } from "../harness/names.ts";
import { type Arguments, type Measured, numberIn } from "../harness/numbers.ts";
import { percentile } from "../harness/statistics.ts";
import { H2Connection } from "./h2-wire.ts";
import { bodyOffset, HoldfastCall } from "./holdfast-call.ts";
import { bounded } from "./readers.ts";

let times: number[] | undefined;
let failure: string | undefined;

async function open(given: Arguments): Promise<Measured> {
  const port = numberIn(given, "port");
  await bounded(numberIn(given, "streams"), 64, async (stream) => {
    const connection = await H2Connection.connect(port);
    await new Promise<void>((resolve, reject) => {
      const attach = { mode: "open", role: "writer", eventId: 0 } as const;
      const named = { idempotencyKey: streamNameOf(stream), apiKey: apiKeyOf(stream) };
      const call = new HoldfastCall(
        connection,
        { ...named, ...attach },
        {
          welcome: () => resolve(),
          event: (bytes, start) => times?.push(nowUs() - bytes.readDoubleBE(bodyOffset(bytes, start))),
          ack: () => undefined,
          failed: (why) => {
            failure ??= why;
            reject(new Error(why));
          },
        },
      );
      setInterval(() => call.heartbeat(), 5_000).unref();
    });
  });
  return {};
}

function time(): Measured {
  times = [];
  return {};
}

function timed(): Measured {
  if (failure !== undefined) throw new Error(`a reader failed: ${failure}`);
  const sorted = Float64Array.from(times ?? []).toSorted();
  return {
    events: sorted.length,
    readerP50: percentile(sorted, 50) / 1000,
    readerP99: percentile(sorted, 99) / 1000,
  };
}

serveCommands({ open, time, timed });
