/**
 * What one seed in forty meets and the others do not: things that cost much, or that would change every other world if they were drawn like
 * the rest.
 *
 * The number of the seed says which: so all other seeds replay as they did before an ordeal was added.
 */
import type { ChaosContext } from "./chaos.ts";
import { LEASE_MS } from "./cluster.ts";
import { PROVIDER_KINDS } from "./provider.ts";
import { WIRE_KINDS } from "./wire.ts";
import type { Random, SimProcess } from "./world/index.ts";

/**
 * - `clocks`: wall clocks are set by hours.
 * - `chatter`: a user says more than may be unacknowledged.
 * - `long_answer`: a model says more than ten thousand things.
 * - `late_looks`: two nodes; what one hears of the other's streams comes late, and in any order.
 * - `split`: what clients send are requests of their own, which overtake each other.
 * - `uploads`: blobs are put beside the stream, and cut on their way.
 * - `provider`: the provider breaks answers off, its calls may outlive the server, and some text cannot be taken back.
 * - `wire`: the same, and what the provider writes is read from bytes.
 * - `slow`: the same as `provider`, and it writes for longer than a host sleeps: the host that took its streams over reads its calls when it wakes.
 */
export type Ordeal =
  | "clocks"
  | "chatter"
  | "late_looks"
  | "long_answer"
  | "provider"
  | "slow"
  | "split"
  | "uploads"
  | "wire";

const EVERY = 40;
const ORDEALS: ReadonlyMap<number, Ordeal> = new Map([
  [3, "provider"],
  [7, "provider"],
  [9, "clocks"],
  [13, "chatter"],
  [21, "split"],
  [23, "uploads"],
  [27, "provider"],
  [28, "slow"],
  [31, "late_looks"],
  [17, "wire"],
  [33, "provider"],
  [37, "wire"],
]);
/** The dearest of all. */
const LONG_EVERY = 400;
const LONG_AT = 69;

export const ORDEAL_KINDS: readonly string[] = [
  ...PROVIDER_KINDS,
  ...WIRE_KINDS,
  "sometimes.step_continued",
  ...["client", "server", "all"].flatMap((who) => [`clock.hours_ahead.${who}`, `clock.hours_back.${who}`]),
  "blob.got",
  "blob.put_again",
  "blob.put_cut",
  "net.reordered_append",
  "split.answered",
  "store.look_late",
  "stream.chunks_above_256",
  "stream.events_above_10000",
];

export function ordealOf(seed: number): Ordeal | undefined {
  return seed % LONG_EVERY === LONG_AT ? "long_answer" : ORDEALS.get(seed % EVERY);
}

/** The provider outside of all processes is asked. */
export function isProviders(ordeal: Ordeal | undefined): boolean {
  return ordeal === "provider" || ordeal === "slow" || ordeal === "wire";
}

const HOUR_MS = 3_600_000;
const HOURS_MAX = 12;
/** Each clock is set twice each way: so much later may a stream expire that was last touched by a clock that was ahead. */
export function clockErrorMsMax(ordeal: Ordeal | undefined): number {
  return ordeal === "clocks" ? 4 * HOURS_MAX * HOUR_MS : 0;
}

/** Of the process that several nodes share. */
const DATABASE = "database";
/** In the part of a run in which things go wrong. */
const WITHIN_MS = 120_000;
const UPLOADS = 20;
const SERVER_FAULTS = 4;
/** Larger ones are hashed by another thread, for which the world does not wait. */
const UPLOAD_BYTES_MAX = 12_000;
/** More than `unackedChunksMax`. */
const WORDS = 300;
const LOOK_LATE_MS_MAX = 15_000;
/** About as long as they take to arrive. */
const CHATTER_MS = 1_000;

/** Plans what happens; `isOn` says whether things still go wrong by then. */
export function planOrdeal(ordeal: Ordeal | undefined, context: ChaosContext, isOn: () => boolean): void {
  const { world } = context;
  const random = world.random.fork("ordeal");
  const at = (run: () => void): void =>
    world.enqueue(random.int(WITHIN_MS), () => {
      if (isOn()) run();
    });
  if (ordeal === "clocks")
    for (const who of ["client", "server", "all"] as const)
      for (const direction of [1, -1] as const) at(() => setClocks(context, random, who, direction));
  if (ordeal === "late_looks") context.cluster.faults.lookLateMsMax = LOOK_LATE_MS_MAX;
  if (isProviders(ordeal)) {
    at(() => context.provider?.loseLine());
    for (let times = 0; times < SERVER_FAULTS; times++) {
      at(() => random.pick(context.cluster.processes).crash());
      // Longer than a lease: another node takes its streams over, and reads its calls.
      at(() => random.pick(context.cluster.processes).pause(10_000 + random.int(20_000)));
    }
  }
  if (ordeal === "chatter")
    for (let times = 0; times < 3; times++)
      at(() => {
        random.pick(context.devices).speak(WORDS);
        // Some are on the disk and not acknowledged by then: they come again.
        for (let cuts = 0; cuts < 4; cuts++)
          world.enqueue(random.int(CHATTER_MS), () => {
            for (const connection of context.network.connections) connection.cut();
          });
      });
  if (ordeal === "uploads")
    for (let times = 0; times < UPLOADS; times++)
      at(() => random.pick(context.devices).upload(random.bytes(1 + random.int(UPLOAD_BYTES_MAX))));
}

function setClocks(
  { world, cluster, devices, ledger }: ChaosContext,
  random: Random,
  who: "client" | "server" | "all",
  direction: 1 | -1,
): void {
  const clients = devices.map(({ process }) => process);
  const all = { client: clients, server: cluster.processes, all: [...clients, ...cluster.processes] };
  const moved: readonly SimProcess[] = who === "all" ? all.all : [random.pick(all[who])];
  const byMs = direction * (HOUR_MS + random.int((HOURS_MAX - 1) * HOUR_MS));
  world.hit(`clock.hours_${direction === 1 ? "ahead" : "back"}.${who}`);
  for (const process of moved) process.jumpClock(byMs);
  const renewedMs = world.nowMs + LEASE_MS;
  if (direction === 1 && moved.some(({ name }) => name === DATABASE))
    ledger.haveLeasesEnded = () => world.nowMs < renewedMs;
}
