/**
 * The load of every row in which a server sends and readers count.
 */
import { busyMeter, serveCommands } from "../harness/child.ts";
import { CreditSender } from "../harness/credit.ts";
import { type Arguments, type Measured, numberIn, textIn } from "../harness/numbers.ts";
import { openReaders, type ReaderSet } from "./readers.ts";

const HEARTBEAT_MS = 5_000;

let received = 0;
let readers: ReaderSet | undefined;
let credit: CreditSender | undefined;
const failures: string[] = [];

/** Opens the readers; resolves when every one is attached. */
async function open(given: Arguments): Promise<Measured> {
  const openAll = openReaders[textIn(given, "protocol")];
  if (openAll === undefined) throw new Error("an unknown protocol");
  credit = await CreditSender.connect(numberIn(given, "creditPort"), numberIn(given, "creditEvery"));
  const startedMs = performance.now();
  readers = await openAll(
    {
      port: numberIn(given, "port"),
      streams: numberIn(given, "streams"),
      perConnection: numberIn(given, "perConnection"),
    },
    {
      received(count) {
        received += count;
        credit?.received(received);
      },
      failed: (why) => failures.push(why),
    },
  );
  setInterval(() => readers?.heartbeat(), HEARTBEAT_MS).unref();
  return { openMs: performance.now() - startedMs };
}

/** What arrives in so many milliseconds from now. */
async function measure(given: Arguments): Promise<Measured> {
  const busy = busyMeter();
  const startedMs = performance.now();
  const before = received;
  await new Promise((resolve) => {
    setTimeout(resolve, numberIn(given, "measureMs"));
  });
  const events = received - before;
  const perSecond = events / ((performance.now() - startedMs) / 1000);
  if (failures.length > 0)
    throw new Error(`${failures.length} readers failed, the first: ${String(failures[0])}`);
  return { events, perSecond, loadBusy: busy()["busy"] ?? Number.NaN };
}

/** Resolves when so many events have arrived in all. */
async function until(given: Arguments): Promise<Measured> {
  const total = numberIn(given, "total");
  await new Promise<void>((resolve, reject) => {
    const timer = setInterval(() => {
      if (received < total && failures.length === 0) return;
      clearInterval(timer);
      if (failures.length === 0) resolve();
      else reject(new Error(`a reader failed: ${String(failures[0])}`));
    }, 1);
  });
  return { received };
}

serveCommands({ open, measure, until });
