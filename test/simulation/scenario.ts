/**
 * One seed: a world is made, things go wrong for some minutes, then everything gets well and must
 * come to an end.
 */
import type { StreamOptions } from "../../src/client/index.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { createAgent, type Models } from "../../src/agent/index.ts";
import { TurnChecks } from "./agent-checks.ts";
import { decodeSaying } from "./agent-messages.ts";
import { Chaos, CHAOS_KINDS } from "./chaos.ts";
import { Cluster } from "./cluster.ts";
import { confusedServer } from "./confused-server.ts";
import { Device } from "./device.ts";
import { checkedAccept } from "./frame-checks.ts";
import { fail, LogChecks } from "./log-checks.ts";
import { Ledger } from "./ledger.ts";
import { longAnswers } from "./long-answer.ts";
import { clockErrorMsMax, isProviders, ORDEAL_KINDS, type Ordeal, ordealOf } from "./ordeals.ts";
import { SimProvider } from "./provider.ts";
import { ProviderChecks } from "./provider-checks.ts";
import { splitAccept } from "./split-transport.ts";
import { Strangers } from "./strangers.ts";
import { everyListener, Truth } from "./truth.ts";
import { blobsOfWorld } from "./uploads.ts";
import { UserBlobs } from "./user-blobs.ts";
import { wildModels } from "./wild-model.ts";
import {
  type CrashWhen,
  DISK_KINDS,
  NETWORK_KINDS,
  PROCESS_KINDS,
  SimNetwork,
  type SimProcess,
  World,
  WorldFailure,
} from "./world/index.ts";

export const PRINCIPAL = "user";
const RETENTION_MS = 600_000;
/** Endless answers are stopped by their users, and by nothing else; and a few messages are much to read. */
const TURN = { stepsMax: 1e6, execsMax: 1e6, tokensMax: 1e9, readBytesMax: 300 };
/** Long enough for every retry, lease, stall clock and for the retention time. */
const CALM_MS_MAX = 3_600_000;
/** A run that needs more is going round in circles. */
const CALM_STEPS_MAX = 100_000;
/** Of ten thousand things that every device reads, some more than once. */
const LONG_STEPS_MAX = 500_000;
/** Of the days until streams expire whose clock was set. */
const DAYS_STEPS_MAX = 2_000_000;

/** Conditions that a campaign must have met, or it proved less than it seems to. */
export const SOMETIMES: readonly string[] = [
  "sometimes.aborted",
  "sometimes.asked_user",
  "sometimes.blob_asked_for",
  "sometimes.checkpoint",
  "sometimes.command",
  "sometimes.edit_written",
  "sometimes.relayed",
  "sometimes.summary",
  "sometimes.approval_denied",
  "sometimes.auto_resumed",
  "sometimes.damage_refused",
  "sometimes.degraded",
  "sometimes.client.ended",
  "sometimes.client.resumed",
  "sometimes.client.stalled",
  "sometimes.durability_lost",
  "sometimes.events_gone",
  "sometimes.exec_conflict",
  "sometimes.expired",
  "sometimes.fenced",
  "sometimes.forgery_refused",
  "sometimes.host_changed",
  "sometimes.journal_damaged",
  "sometimes.leftover_stopped",
  "sometimes.marked_aborted",
  "sometimes.partial_reply",
  "sometimes.playback",
  "sometimes.repeatable_again",
  "sometimes.second_tab",
  "sometimes.seqno_gap",
  "sometimes.slow_reader_cut",
  "sometimes.snapshot_restored",
  "sometimes.stalled",
  "sometimes.step_restarted",
  "sometimes.store_failed",
  "sometimes.store_given_up",
  "sometimes.store_reopened",
  "sometimes.stranger_refused",
  "sometimes.taken_back.aborted",
  "sometimes.taken_back.error",
  "sometimes.taken_back.success",
  "sometimes.takeover",
  "sometimes.takeover_with_open_exec",
  "sometimes.tombstone_answered",
  "sometimes.turn.ended",
  "sometimes.turn.resumed",
  "sometimes.turn.stalled",
  "sometimes.turn_failed",
  "sometimes.unknown_reported",
  "store.down",
  "store.hint_lost",
  "store.letter",
  "store.letter_dealt_with",
  "store.reply_lost",
];

export const ALL_KINDS: readonly string[] = [
  ...NETWORK_KINDS,
  ...DISK_KINDS,
  ...PROCESS_KINDS,
  ...CHAOS_KINDS,
  ...ORDEAL_KINDS,
  ...SOMETIMES,
];

export interface SeedResult {
  readonly steps: number;
  readonly simulatedMs: number;
  readonly traceHash: string;
  readonly hits: Readonly<Record<string, number>>;
}

/** Rejects with `WorldFailure` when an invariant is broken. */
export async function runSeed(seed: number, print?: (line: string) => void): Promise<SeedResult> {
  const world = new World(seed, { print });
  const simulation = new Simulation(world);
  await simulation.run();
  const { steps, nowMs: simulatedMs, traceHash, counters } = world;
  return { steps, simulatedMs, traceHash, hits: counters.toJSON() };
}

/** One crash in a world where nothing else goes wrong. */
export interface CrashPlan {
  readonly who: "server" | "client";
  /** The number of the call that leaves the process: 1 is its first. */
  readonly effect: number;
  readonly when: CrashWhen;
}

/** Runs one turn with tools, with one crash or none; tells how many crash points each process had. */
export async function runOneCrash(
  seed: number,
  plan?: CrashPlan,
): Promise<Readonly<Record<CrashPlan["who"], number>>> {
  return new Simulation(new World(seed), true).runOneCrash(plan);
}

function stepsMaxOf(ordeal: Ordeal | undefined): number {
  if (ordeal === "clocks") return DAYS_STEPS_MAX;
  return ordeal === "long_answer" ? LONG_STEPS_MAX : CALM_STEPS_MAX;
}

class Simulation {
  readonly #world: World;
  readonly #truth: Truth;
  readonly #ledger: Ledger;
  readonly #cluster: Cluster;
  readonly #devices: readonly Device[];
  /** The devices that are switched on when they died. */
  readonly #inUse = new Set<Device>();
  readonly #chaos: Chaos;
  readonly #strangers: Strangers;
  readonly #logChecks: LogChecks;
  readonly #turnChecks: TurnChecks;
  readonly #providerChecks: ProviderChecks | undefined;

  constructor(world: World, isCalm = false) {
    this.#world = world;
    const random = world.random.fork("scenario");
    const homeKey = random.bytes(32);
    const sealing = nodeSealing();
    const keys = new Map<string, Uint8Array>();
    const streamKeyOf = (idempotencyKey: string): Uint8Array => {
      const known = keys.get(idempotencyKey) ?? sealing.deriveStreamKey(homeKey, idempotencyKey);
      keys.set(idempotencyKey, known);
      return known;
    };
    const ordeal = isCalm ? undefined : ordealOf(world.seed);
    const network = new SimNetwork(world, { codec: random.chance(0.2), split: ordeal === "split" });
    this.#ledger = new Ledger(world);
    this.#logChecks = new LogChecks(world, this.#ledger);
    const pauseBytes = 50 + random.int(800);
    this.#providerChecks = isProviders(ordeal) ? new ProviderChecks() : undefined;
    const provider =
      this.#providerChecks &&
      new SimProvider(
        world,
        this.#providerChecks,
        (conversationId) => {
          this.#truth.refresh();
          return this.#turnChecks.turnOf(conversationId)?.openText ?? "";
        },
        ordeal === "wire" || ordeal === "slow" ? ordeal : "provider",
      );
    const modelsOf = (process: SimProcess): Models => {
      if (provider !== undefined) return provider.models(process);
      return ordeal === "long_answer" ? longAnswers(wildModels(process), process.env) : wildModels(process);
    };
    const finals = world.random.fork("finals");
    const shared = (random.chance(0.4) || ordeal === "late_looks") && !isCalm;
    if (this.#providerChecks !== undefined) this.#providerChecks.hasSeveralNodes = shared;
    this.#cluster = new Cluster(world, network, {
      shared,
      retentionMs: RETENTION_MS,
      pauseBytes,
      application: (process) =>
        confusedServer(
          createAgent({ models: modelsOf(process), environment: process.env, limits: TURN }),
          () => process.env.random() < 0.03,
        ),
      slowReaderMs: 3_000,
      blobs: ordeal === "uploads" ? blobsOfWorld(world) : undefined,
      observe: (accept, process) => {
        const checked = checkedAccept(
          {
            world,
            truth: this.#truth,
            ledger: this.#ledger,
            isRightful: (meta) =>
              meta.principal === PRINCIPAL && sealing.equal(meta.streamKey, streamKeyOf(meta.idempotencyKey)),
            waitingBytesMax: 1_000_000,
            process,
          },
          accept,
        );
        return ordeal === "split" ? splitAccept({ world, truth: () => this.#truth }, checked) : checked;
      },
    });
    const isEcho = (idempotencyKey: string): boolean => this.#ledger.isEcho(idempotencyKey);
    this.#turnChecks = new TurnChecks(world, isEcho, this.#providerChecks);
    const listener = everyListener([this.#logChecks, this.#turnChecks]);
    this.#truth = new Truth(this.#cluster.disk, streamKeyOf, listener);
    const stream: Partial<StreamOptions> = { allowDegraded: random.chance(0.8) };
    const context = {
      world,
      network,
      truth: this.#truth,
      ledger: this.#ledger,
      blobs: new UserBlobs(),
      homeKey,
      principal: PRINCIPAL,
      stream,
      pickNode: () => this.#cluster.pickNode(),
      blobTarget: ordeal === "uploads" ? this.#cluster.blobTarget : undefined,
      isShownFinal: () => isProviders(ordeal) && finals.chance(0.5),
      provider,
    };
    this.#devices = ["laptop", "phone"].map((name) => new Device(context, name));
    this.#strangers = new Strangers({ ...context, streamKeyOf });
    this.#chaos = new Chaos({
      ...context,
      cluster: this.#cluster,
      devices: this.#devices,
      strangers: this.#strangers,
    });
    if (isCalm) this.#chaos.stop();
    world.afterStep(() => this.#truth.refresh());
  }

  async runOneCrash(plan: CrashPlan | undefined): Promise<Readonly<Record<CrashPlan["who"], number>>> {
    const device = this.#devices[0];
    if (device === undefined) throw new Error("there is a device");
    this.#cluster.start();
    this.#keepAlive(device);
    const [server] = this.#cluster.processes;
    const { process: client } = device;
    if (plan !== undefined) (plan.who === "server" ? server : client)?.crashAtEffect(plan.effect, plan.when);
    // The server first: a client that finds none would only wait.
    await this.#world.run({ untilMs: 100 });
    if (device.process.alive) device.openStream(false);
    await this.#comeToAnEnd();
    return { server: server?.effects ?? 0, client: client.effects };
  }

  async run(): Promise<void> {
    this.#cluster.start();
    for (const device of this.#devices) this.#keepAlive(device);
    this.#devices[0]?.openStream(false);
    this.#chaos.start();
    const random = this.#world.random.fork("length");
    await this.#world.run({ untilMs: 60_000 + random.int(240_000) });
    this.#chaos.stop();
    this.#chaos.loseOneMore();
    // A user whose program says that its disk failed starts it again.
    for (const device of this.#devices) if (device.hasFailedDisk) device.process.crash();
    this.#world.enqueue(10_000, () => this.#stopEndless());
    await this.#comeToAnEnd();
  }

  async #comeToAnEnd(): Promise<void> {
    const ordeal = ordealOf(this.#world.seed);
    const isOver = this.#providerChecks === undefined ? () => true : this.#isQuiet();
    await this.#world.run({
      untilMs: this.#world.nowMs + CALM_MS_MAX + clockErrorMsMax(ordeal),
      stepsMax: stepsMaxOf(ordeal),
      stop: () => this.#isDone() && isOver(),
    });
    const doneMs = this.#world.nowMs;
    await this.#comeLate();
    try {
      this.#checkEnd(doneMs);
    } catch (cause) {
      throw new WorldFailure(this.#world, cause);
    }
  }

  /** By then the provider has heard that the last call was stopped. */
  #isQuiet(): () => boolean {
    let sinceMs: number | undefined;
    return () => this.#world.nowMs >= (sinceMs ??= this.#world.nowMs) + 10_000;
  }

  /** Whoever asks for a stream after its time must hear that it is gone, and not get a new one (A7). */
  async #comeLate(): Promise<void> {
    const gone = [...this.#truth.streams].filter(({ isGone }) => isGone);
    if (gone.length === 0) return;
    await this.#world.run({ untilMs: this.#world.nowMs + 60_000 });
    for (const { name } of gone) this.#strangers.comeLate(name.idempotencyKey);
    await this.#world.run({ untilMs: this.#world.nowMs + 10_000 });
  }

  /** A device that died is switched on again. */
  #keepAlive(device: Device): void {
    this.#inUse.add(device);
    device.boot();
    const random = this.#world.random.fork(`restarts of ${device.name}`);
    const watch = (): void => {
      device.process.onCrash(() =>
        this.#world.enqueue(random.int(20_000), () => {
          device.boot();
          watch();
        }),
      );
    };
    watch();
  }

  /** Endless answers go on until somebody stops them: somebody does. */
  #stopEndless(): void {
    for (const { name, state, isGone, chunks } of this.#truth.streams) {
      const [first] = chunks;
      if (first?.mark === "close") continue;
      const said = first === undefined ? undefined : decodeSaying(first.body);
      // Nor does an agent begin that nobody has told anything: its user gives up on it.
      const isEndless = said === undefined || (said.kind === "words" && said.endless);
      if (isGone || state.end !== undefined || !isEndless) continue;
      const { idempotencyKey } = name;
      if (this.#mustStopByItself(idempotencyKey)) continue;
      const holder = this.#devices.find((device) => device.holds(idempotencyKey)) ?? this.#devices[0];
      holder?.abortFromOutside(idempotencyKey);
    }
    for (const device of this.#devices) {
      for (const { idempotencyKey, status } of device.open) {
        if (status.state === "degraded") device.abort(idempotencyKey);
      }
    }
    if (!this.#isDone()) this.#world.enqueue(60_000, () => this.#stopEndless());
  }

  /** An abort that was promised must arrive; but a flipped bit may cost a journal, and nobody hears an echo. */
  #mustStopByItself(idempotencyKey: string): boolean {
    const isPromised = this.#ledger.isAbortPromised(idempotencyKey) && !this.#ledger.isEcho(idempotencyKey);
    return isPromised && this.#world.counters.of("disk.bit_flip") === 0;
  }

  #isDone(): boolean {
    for (const stream of this.#truth.streams) {
      if (stream.state.end === undefined && !stream.isGone) return false;
    }
    // One that is switched off may go on with a stream when it is switched on.
    return [...this.#inUse].every(
      ({ process, settled, open }) => process.alive && settled === process && open.length === 0,
    );
  }

  /** F1: when faults stop, everything comes to an end. A stream may begin later still: its attach waits at a server that sleeps, and its client is gone. */
  #checkEnd(doneMs: number): void {
    // A host that the store has left alone with its doubts lets a stream go that it has ended.
    const hadDoubts = ["store.reply_lost", "sometimes.store_failed"].some(
      (kind) => this.#world.counters.of(kind) > 0,
    );
    if (!hadDoubts) this.#providerChecks?.checkEnd((id) => this.#turnChecks.turnOf(id)?.endedBy);
    for (const stream of this.#truth.streams) {
      if (stream.state.end !== undefined || stream.isGone || stream.beganMs > doneMs) continue;
      const waiting = this.#logChecks.openExecs(stream).join(", ");
      fail(
        "F1",
        `stream ${stream.name.idempotencyKey} never ends; execs without a result: ${waiting || "none"}`,
      );
    }
    for (const device of this.#devices) {
      for (const { idempotencyKey, status } of device.open) {
        fail("F1", `${device.name} never leaves ${idempotencyKey}: ${status.state} ${status.stuck ?? ""}`);
      }
      device.checkStalls();
    }
  }
}
