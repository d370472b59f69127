/**
 * What goes wrong, and what users do meanwhile: one small act after the other, drawn by the seed.
 *
 * Each seed switches a part of the acts on and the rest off: a world where only disks fail finds
 * other bugs than one where everything does at once.
 */
import type { Cluster } from "./cluster.ts";
import { DRIVEN_KINDS } from "./driven-store.ts";
import type { Device } from "./device.ts";
import type { Ledger } from "./ledger.ts";
import { ordealOf, planOrdeal } from "./ordeals.ts";
import type { SimProvider } from "./provider.ts";
import type { Strangers } from "./strangers.ts";
import type { Truth } from "./truth.ts";
import type { Random, SimNetwork, SimProcess, World } from "./world/index.ts";

export interface ChaosContext {
  readonly world: World;
  readonly network: SimNetwork;
  readonly cluster: Cluster;
  readonly devices: readonly Device[];
  readonly ledger: Ledger;
  readonly truth: Truth;
  readonly strangers: Strangers;
  readonly principal: string;
  /** Where it is one of its own. */
  readonly provider: SimProvider | undefined;
}

type Act = (context: ChaosContext, random: Random) => void;

const STREAMS_MAX = 5;

/** What users do: always on. */
const USER_ACTS: Readonly<Record<string, Act>> = {
  open: ({ devices, ledger }, random) => {
    if (ledger.streams.size < STREAMS_MAX) random.pick(devices).openStream(random.chance(0.2));
  },
  speak: ({ devices }, random) => random.pick(devices).speak(),
  wake: ({ devices }, random) => random.pick(devices).wake(),
  abort: ({ devices, world }, random) => {
    if (!random.chance(0.3)) return;
    const device = random.pick(devices);
    device.abort();
    // Some switch the machine off right behind it: the wish must survive that (D3).
    if (world.nowMs % 2 === 0) world.enqueue(world.nowMs % 60, () => device.process.crash());
  },
  close: ({ devices }, random) => {
    if (random.chance(0.2)) random.pick(devices).close();
  },
  cancel: ({ devices }, random) => {
    if (random.chance(0.3)) random.pick(devices).cancel();
  },
};

/** What goes wrong, and what is rare: each seed takes some of them. */
const FAULT_ACTS: Readonly<Record<string, Act>> = {
  crashServer: ({ cluster }, random) => crash(random.pick(cluster.processes), random),
  crashClient: ({ devices }, random) => crash(random.pick(devices).process, random),
  pauseServer: ({ cluster }, random) => random.pick(cluster.processes).pause(1_000 + random.int(40_000)),
  sleepingHost: ({ cluster, devices, network, world }, random) => {
    // Longer than its lease, with a commit under way, while its clients are made to go elsewhere and back.
    for (const device of devices) device.speak();
    cluster.faults.sleepAtCommitMs = 20_000 + random.int(20_000);
    for (const afterMs of [500, 14_000, 18_000]) {
      world.enqueue(afterMs, () => {
        for (const connection of network.connections) if (random.chance(0.7)) connection.cut();
      });
    }
  },
  pauseClient: ({ devices }, random) => random.pick(devices).process.pause(1_000 + random.int(60_000)),
  jumpClock: ({ cluster, devices }, random) => {
    const process = random.chance(0.5) ? random.pick(cluster.processes) : random.pick(devices).process;
    process.jumpClock(random.between(-120_000, 120_000));
  },
  partition: ({ network, devices }, random) => {
    network.partition(random.pick(devices).process, 1_000 + random.int(90_000));
  },
  cut: ({ network }, random) => {
    const connections = [...network.connections];
    if (connections.length > 0) random.pick(connections).cut();
  },
  halfOpen: ({ network }, random) => {
    const connections = [...network.connections];
    if (connections.length > 0) random.pick(connections).halfOpen(random.pick(["client", "server"] as const));
  },
  loseFrame: ({ network }, random) => {
    const connections = [...network.connections];
    if (connections.length > 0) random.pick(connections).loseNext(random.pick(["client", "server"] as const));
  },
  failSync: ({ cluster, devices }, random) => {
    if (random.chance(0.7)) cluster.disk.failSync();
    else random.pick(devices).disk.failSync();
  },
  fillDisk: ({ cluster, devices, world }, random) => {
    const disk = random.chance(0.6) ? cluster.disk : random.pick(devices).disk;
    disk.faults.full = true;
    world.enqueue(1_000 + random.int(10_000), () => {
      disk.faults.full = false;
    });
  },
  flipServerBit: ({ cluster }, random) => {
    cluster.disk.flipBit();
    random.pick(cluster.processes).crash();
  },
  flipJournalBit: ({ devices }, random) => {
    const device = random.pick(devices);
    device.disk.flipBit();
    device.process.crash();
  },
  storeDown: ({ cluster, world }, random) => {
    cluster.faults.downUntilMs = world.nowMs + random.int(30_000);
  },
  takeOver: ({ devices, ledger }, random) => {
    const keys = [...ledger.streams.keys()];
    if (keys.length > 0) random.pick(devices).takeOver(random.pick(keys));
  },
  follow: ({ devices, ledger }, random) => {
    const keys = [...ledger.streams.keys()];
    if (keys.length > 0) random.pick(devices).follow(random.pick(keys));
  },
  secondTab: ({ devices }, random) => random.pick(devices).openTab(),
  strangers: ({ strangers }, random) => strangers.knock(random),
  trim: ({ cluster, truth, principal, ledger }, random) => {
    const keys = [...ledger.streams.keys()];
    if (keys.length === 0 || !random.chance(0.3)) return;
    const key = random.pick(keys);
    const events = truth.of(principal, key)?.events.length ?? 0;
    cluster.trim(principal, key, random.int(events + 1));
  },
  longAbsence: ({ devices, network }, random) => {
    // Longer than the retention time: the stream is gone when the device comes back.
    if (random.chance(0.2)) network.partition(random.pick(devices).process, 1_200_000);
  },
};

export const CHAOS_KINDS: readonly string[] = [
  ...Object.keys(FAULT_ACTS).map((name) => `act.${name}`),
  ...DRIVEN_KINDS,
];

/** Dies now, or in the middle of what it does next. */
function crash(process: SimProcess, random: Random): void {
  if (random.chance(0.15))
    process.crashAtKind(random.pick(["disk.replace", "disk.remove", "disk.drop"] as const));
  else if (random.chance(0.4)) process.crash();
  else process.crashAtEffect(1 + random.int(30));
}

export class Chaos {
  readonly #context: ChaosContext;
  readonly #random: Random;
  readonly #faults: readonly string[];
  #isOn = true;

  constructor(context: ChaosContext) {
    this.#context = context;
    this.#random = context.world.random.fork("chaos");
    const share = this.#random.float();
    this.#faults = Object.keys(FAULT_ACTS).filter(() => this.#random.chance(share));
    this.#setProbabilities(share);
  }

  start(): void {
    this.#next();
    const { cluster, world } = this.#context;
    planOrdeal(ordealOf(world.seed), this.#context, () => this.#isOn);
    // The rarest of all faults needs a shared database, and is worth more than chance would give it.
    if (cluster.nodes.length < 2) return;
    for (let times = this.#random.int(4); times > 0; times--) {
      world.enqueue(this.#random.int(150_000), () => {
        if (this.#isOn) FAULT_ACTS["sleepingHost"]?.(this.#context, this.#random);
      });
    }
  }

  /** The world gets well: nothing new goes wrong, and what is dead is started. */
  stop(): void {
    this.#isOn = false;
    const { network, cluster, devices } = this.#context;
    network.stopFaults();
    cluster.faults.downUntilMs = 0;
    cluster.faults.replyLost = 0;
    Object.assign(cluster.faults, { sleepAtCommitMs: 0, undone: 0, refused: 0, warned: 0, late: 0 });
    for (const disk of [cluster.disk, ...devices.map((device) => device.disk)]) {
      disk.stopFaults();
    }
    cluster.disk.heal();
  }

  /** The very last fault: a frame that nothing after it betrays, on connections that live on. */
  loseOneMore(): void {
    const { network, world } = this.#context;
    if (!this.#random.chance(0.5)) return;
    world.enqueue(this.#random.int(5_000), () => {
      for (const connection of network.connections) connection.loseNext("client");
    });
  }

  #next(): void {
    const { world } = this.#context;
    world.enqueue(this.#random.chance(0.3) ? this.#random.int(15_000) : this.#random.int(1_500), () => {
      if (!this.#isOn) return;
      this.#act();
      this.#next();
    });
  }

  #act(): void {
    const isFault = this.#faults.length > 0 && this.#random.chance(0.4);
    const acts = isFault ? FAULT_ACTS : USER_ACTS;
    const name = this.#random.pick(isFault ? this.#faults : Object.keys(USER_ACTS));
    this.#context.world.trace("chaos", name);
    if (isFault) this.#context.world.hit(`act.${name}`);
    acts[name]?.(this.#context, this.#random);
  }

  #setProbabilities(share: number): void {
    const { network, cluster, devices } = this.#context;
    const random = this.#random;
    const some = (max: number): number => (random.chance(share) ? random.float() * max : 0);
    Object.assign(network.faults, {
      delayMsMax: 1 + random.int(random.chance(0.3) ? 1_500 : 60),
      longDelay: some(0.02),
      loseFrame: some(0.02),
      duplicateFrame: some(0.03),
      cut: some(0.02),
      halfOpen: some(0.7),
      refuse: some(0.3),
      ghost: some(0.3),
      slowReader: some(0.5),
      slowWriter: some(0.2),
      slowBytesPerMsMax: random.chance(0.5) ? 0.2 : 20,
    });
    cluster.faults.replyLost = some(0.05);
    cluster.faults.delayMsMax = 1 + random.int(random.chance(0.3) ? 1_500 : 20);
    for (const disk of [cluster.disk, ...devices.map((device) => device.disk)]) {
      disk.faults.latencyMsMax = 1 + random.int(20);
      disk.faults.slow = some(0.05);
      disk.faults.syncFails = some(0.01);
    }
  }
}
