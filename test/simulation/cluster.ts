/**
 * The servers: one node with its store inside, or two nodes that share a database process.
 *
 * A node whose own store failed opens it anew, within the same process; in some worlds a supervisor is faster and kills it.
 * A supervisor starts again whatever died. A damaged log must be refused untouched; the operator then heals it, and the start is
 * tried again.
 */
import { HoldfastError } from "../../src/protocol/errors.ts";
import { given } from "../../src/protocol/given.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import {
  type Application,
  createServer,
  LastingServer,
  type Server,
  type Standing,
  type StandingServer,
  type StoreNews,
} from "../../src/server/index.ts";
import { openLogStreamStore } from "../../src/store/index.ts";
import type { BlobStore } from "../../src/store/blob-store.ts";
import type { Hint, Letters } from "../../src/store/letters.ts";
import type { StreamStore } from "../../src/store/stream-store.ts";
import type { Accept } from "../../src/transport/transport.ts";
import { hintOf } from "../../src/store/postgres/bell-payload.ts";
import { postgresBlobs } from "../../src/store/postgres/postgres-blobs.ts";
import { type DrivenStore, openDrivenStore } from "./driven-store.ts";
import { flakyLetters, flakyStore, type FlakyStoreContext, type StoreFaults } from "./flaky-store.ts";
import { MemoryLetters } from "../store/memory-letters.ts";
import { TurnStallChecks } from "./stall-checks.ts";
import { SimPostgres } from "./sim-postgres.ts";
import { type BlobTarget, checkedBlobs } from "./uploads.ts";
import { type Random, SimDisk, type SimNetwork, SimProcess, type World } from "./world/index.ts";

export interface ClusterOptions {
  readonly shared: boolean;
  readonly retentionMs: number;
  readonly pauseBytes: number;
  /** What runs in each life of a server. */
  readonly application: (process: SimProcess) => Application;
  readonly slowReaderMs: number;
  /** Where blobs lie; without it the servers have none. */
  readonly blobs?: BlobStore | undefined;
  /** Wraps what listens, for the checks. */
  readonly observe: (accept: Accept, process: SimProcess) => Accept;
}

const RESTART_MS_MAX = 4_000;
export const LEASE_MS = 10_000;
/** Openings 1 s, 4 s and 13 s after a failure: a disk that is full for a while outlasts some of them, or all. */
const LIFE = { pauseMs: 1_000 } as const;

export class Cluster {
  readonly disk: SimDisk;
  readonly nodes: Node[];
  readonly faults: StoreFaults = {
    downUntilMs: 0,
    replyLost: 0,
    delayMsMax: 3,
    hintLost: 0,
    lookLateMsMax: 0,
    sleepAtCommitMs: 0,
    undone: 0,
    refused: 0,
    warned: 0,
    late: 0,
  };
  readonly #world: World;
  readonly #network: SimNetwork;
  readonly #options: ClusterOptions;
  readonly #random: Random;
  readonly #database: Database | undefined;
  /** The nodes run the production PostgreSQL store, in a part of the worlds that share a database. */
  readonly #isDriven: boolean;
  /** Whether a supervisor leaves a node alone whose store failed. */
  readonly #reopens: boolean;

  constructor(world: World, network: SimNetwork, options: ClusterOptions) {
    this.#world = world;
    this.#network = network;
    this.#options = options;
    this.#random = world.random.fork("cluster");
    this.#reopens = world.random.fork("reopening").chance(0.7);
    this.disk = new SimDisk(world, "server disk");
    // In some worlds no hint ever arrives.
    this.faults.hintLost = world.random.fork("hints").pick([0, 0.3, 1]);
    const driver = world.random.fork("driver");
    this.#isDriven = options.shared && driver.chance(0.4);
    if (this.#isDriven) this.#setDriverFaults(driver);
    this.#database = options.shared ? new Database(world, this.disk, this.#random) : undefined;
    const names = options.shared ? ["node-a", "node-b"] : ["server"];
    this.nodes = names.map((name) => new Node(name, new SimProcess(world, name)));
  }

  start(): void {
    this.#database?.boot();
    for (const node of this.nodes) this.#boot(node);
  }

  pickNode(): string {
    return this.#random.pick(this.nodes).name;
  }

  /** A node that takes calls, and its blobs. */
  readonly blobTarget: BlobTarget = () => {
    const { process, server } = this.#random.pick(this.nodes);
    if (!process.alive || process.paused || server?.blobs === undefined) return undefined;
    return { process, blobs: server.blobs };
  };

  /** The processes that chaos may kill, pause and confuse. */
  get processes(): readonly SimProcess[] {
    const all = this.nodes.map((node) => node.process);
    return this.#database === undefined ? all : [...all, this.#database.process];
  }

  trim(principal: string, idempotencyKey: string, eventFloor: number): void {
    for (const node of this.nodes) node.server?.trim({ principal, idempotencyKey }, eventFloor);
  }

  #setDriverFaults(random: Random): void {
    this.#world.hit("driver.world");
    const share = random.float();
    const some = (max: number): number => (random.chance(share) ? random.float() * max : 0);
    Object.assign(this.faults, {
      undone: some(0.1),
      refused: some(0.01),
      warned: some(0.05),
      late: some(0.05),
    });
  }

  #boot(node: Node): void {
    const process = node.process.restart();
    node.process = process;
    node.server = undefined;
    process.onCrash(() => this.#world.enqueue(this.#random.int(RESTART_MS_MAX), () => this.#boot(node)));
    this.#start(node, process).catch((cause: unknown) => this.#startFailed(process, cause));
  }

  async #start(node: Node, process: SimProcess): Promise<void> {
    const database = this.#database;
    const server =
      database === undefined || this.#isDriven
        ? await this.#lastingServer(node, process)
        : this.#serverOn(node, process, () => database.target);
    node.server = server;
    this.#network.listen(node.name, process, this.#options.observe(server.accept, process));
  }

  async #lastingServer(node: Node, process: SimProcess): Promise<Server> {
    const lasting = await LastingServer.open({
      open: () => this.#stand(node, process),
      environment: process.env,
      life: LIFE,
      onNews: (news) => this.#heard(news, process),
    });
    // The supervisor sees the exit code, and starts it again.
    void lasting.givenUp.then(() => process.crash());
    return lasting;
  }

  async #stand(node: Node, process: SimProcess): Promise<Standing> {
    const database = this.#database;
    if (database !== undefined) return this.#drivenStanding(node, process, database);
    const { promise: failed, resolve: onFailed } = Promise.withResolvers<Error>();
    const own = await openStore(this.disk, process, onFailed);
    const server = this.#serverOn(node, process, () => ({ process, store: own }));
    return { server, failed, close: () => own.close() };
  }

  async #drivenStanding(node: Node, process: SimProcess, database: Database): Promise<Standing> {
    const random = this.#world.random.fork(`driver of ${node.name} ${process.incarnation}`);
    const target = () => database.driven;
    const own: DrivenStore = await openDrivenStore({
      world: this.#world,
      random,
      faults: this.faults,
      process,
      target,
      ring: (payload) => database.ring(payload),
    });
    const server = this.#serverOn(node, process, () => ({ process, store: own.streams }), own);
    return { server, failed: own.failed, close: () => own.close() };
  }

  #serverOn(
    node: Node,
    process: SimProcess,
    target: FlakyStoreContext["target"],
    own?: DrivenStore,
  ): StandingServer {
    const { retentionMs, pauseBytes, slowReaderMs } = this.#options;
    const isDriven = own !== undefined && this.#options.blobs !== undefined;
    const blobs = isDriven ? checkedBlobs(this.#world, postgresBlobs(own.parts)) : this.#options.blobs;
    const stalls = new TurnStallChecks(this.#world);
    const flaky = { world: this.#world, random: this.#random, faults: this.faults, process };
    const database = this.#database;
    const letters =
      database &&
      flakyLetters({
        ...flaky,
        random: this.#world.random.fork(`letters of ${node.name}`),
        target: () => database.letterBox,
        listen: (hear) => database.listen(hear, own?.placeOf),
      });
    return createServer({
      store: flakyStore({ ...flaky, target, isDriven: this.#isDriven }),
      ...given({ letters }),
      sealing: nodeSealing({ randomBytes: (length) => process.env.randomBytes(length) }),
      application: this.#options.application(process),
      ...(blobs === undefined ? {} : { blobs }),
      environment: process.env,
      hostId: node.name,
      leaseMs: LEASE_MS,
      sweepIntervalMs: 20_000,
      host: {
        // Longer than any clock of the world is ever ahead.
        retention: { retentionMs, tombstoneMs: 1_000 * retentionMs },
        sender: { pauseBytes, slowReaderMs },
      },
      onBug: (bug) => this.#world.fail(bug),
      onStall: (news) => stalls.heard(news),
    });
  }

  #startFailed(process: SimProcess, cause: unknown): void {
    const isDamage = cause instanceof HoldfastError && cause.code === "stream_failed";
    if (!isDamage && !(cause instanceof HoldfastError)) {
      this.#world.fail(cause);
      return;
    }
    if (isDamage) {
      this.#world.hit("sometimes.damage_refused");
      this.disk.heal();
    }
    process.crash();
  }

  #heard(news: StoreNews, process: SimProcess): void {
    if (!process.alive) return;
    this.#world.trace(process.name, "store", news.kind);
    switch (news.kind) {
      case "failed":
        this.#world.hit("sometimes.store_failed");
        if (!this.#reopens) this.#world.enqueue(this.#random.int(RESTART_MS_MAX), () => process.crash());
        return;
      case "back":
        this.#world.hit("sometimes.store_reopened");
        return;
      case "refused":
        if (news.reason instanceof HoldfastError && news.reason.code === "stream_failed") this.disk.heal();
        else if (!(news.reason instanceof HoldfastError)) this.#world.fail(news.reason);
        return;
      case "given_up":
        this.#world.hit("sometimes.store_given_up");
        return;
      case "unclean":
        this.#world.fail(news.reason);
        return;
    }
  }
}

class Node {
  readonly name: string;
  process: SimProcess;
  server: Server | undefined;

  constructor(name: string, process: SimProcess) {
    this.name = name;
    this.process = process;
  }
}

/** The shared database: a process of its own around the same store. */
class Database {
  process: SimProcess;
  #store: StreamStore | undefined;
  /** Lost with the process: whoever posted one posts it again. */
  #letters = new MemoryLetters();
  readonly #listeners = new Set<(hint: Hint) => void>();
  readonly #bells = new Set<(payload: string) => void>();
  readonly #postgres: SimPostgres;
  readonly #world: World;
  readonly #disk: SimDisk;
  readonly #random: Random;

  constructor(world: World, disk: SimDisk, random: Random) {
    this.#world = world;
    this.#disk = disk;
    this.#random = random;
    this.process = new SimProcess(world, "database");
    this.#postgres = new SimPostgres(() => world.nowMs);
  }

  get target(): { readonly process: SimProcess; readonly store: StreamStore } | undefined {
    return this.#store === undefined ? undefined : { process: this.process, store: this.#store };
  }

  get driven() {
    const { target } = this;
    return target && { ...target, postgres: this.#postgres };
  }

  get letterBox(): { readonly process: SimProcess; readonly store: Letters } | undefined {
    return this.#store === undefined ? undefined : { process: this.process, store: this.#letters };
  }

  /** With `placeOf` the hints about streams are those of the production store. */
  listen(hear: (hint: Hint) => void, placeOf: DrivenStore["placeOf"] | undefined): () => void {
    if (placeOf === undefined) {
      this.#listeners.add(hear);
      return () => this.#listeners.delete(hear);
    }
    const ofLetters = (hint: Hint): void => hear({ has: () => false, isFor: (hostId) => hint.isFor(hostId) });
    const ofStreams = (payload: string): void => hear(hintOf(payload, placeOf));
    this.#listeners.add(ofLetters);
    this.#bells.add(ofStreams);
    return () => {
      this.#listeners.delete(ofLetters);
      this.#bells.delete(ofStreams);
    };
  }

  ring(payload: string): void {
    for (const hear of this.#bells) hear(payload);
  }

  boot(): void {
    const process = this.process.restart();
    this.process = process;
    this.#store = undefined;
    process.onCrash(() => {
      this.#store = undefined;
      this.#postgres.end();
      this.#world.enqueue(this.#random.int(RESTART_MS_MAX), () => this.boot());
    });
    this.#open(process).catch((cause: unknown) => {
      if (cause instanceof HoldfastError && cause.code === "stream_failed") this.#disk.heal();
      if (cause instanceof HoldfastError) process.crash();
      else this.#world.fail(cause);
    });
  }

  async #open(process: SimProcess): Promise<void> {
    const store = await openStore(this.#disk, process);
    const restart = (): void => this.#world.enqueue(this.#random.int(RESTART_MS_MAX), () => process.crash());
    this.#letters = new MemoryLetters();
    this.#letters.listen((hint) => {
      for (const hear of this.#listeners) hear(hint);
    });
    const around = this.#letters.around(failing(store, restart));
    await this.#postgres.begin(around);
    this.#store = around;
  }
}

/** Notices that a store failed for good. */
function failing(store: StreamStore, onFailure: () => void): StreamStore {
  return new Proxy(store, {
    get(target, property) {
      const value: unknown = Reflect.get(target, property, target);
      if (typeof value !== "function") return value;
      return (...args: unknown[]): unknown => {
        const result: unknown = Reflect.apply(value, target, args);
        if (result instanceof Promise) result.catch(onFailure);
        return result;
      };
    },
  });
}

async function openStore(
  disk: SimDisk,
  process: SimProcess,
  onFailed: (failure: Error) => void = () => undefined,
): Promise<StreamStore> {
  const now = (): number => process.env.now();
  // Every other moment of a start has the log's end in memory, as a start has that ships; the others read rows.
  const remembered = now() % 2 < 1 ? { youngestBytes: 0 } : {};
  return openLogStreamStore(disk.openCommitLog(process), { now, onFailed, ...remembered });
}
