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
import { flakyLetters, flakyStore, type FlakyStoreContext, type StoreFaults } from "./flaky-store.ts";
import { MemoryLetters } from "../store/memory-letters.ts";
import { TurnStallChecks } from "./stall-checks.ts";
import type { BlobTarget } from "./uploads.ts";
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
  };
  readonly #world: World;
  readonly #network: SimNetwork;
  readonly #options: ClusterOptions;
  readonly #random: Random;
  readonly #database: Database | undefined;
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
      database === undefined
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
    const { promise: failed, resolve: onFailed } = Promise.withResolvers<Error>();
    const own = await openStore(this.disk, process, onFailed);
    const server = this.#serverOn(node, process, () => ({ process, store: own }));
    return { server, failed, close: () => own.close() };
  }

  #serverOn(node: Node, process: SimProcess, target: FlakyStoreContext["target"]): StandingServer {
    const { retentionMs, pauseBytes, slowReaderMs, blobs } = this.#options;
    const stalls = new TurnStallChecks(this.#world);
    const flaky = { world: this.#world, random: this.#random, faults: this.faults, process };
    const database = this.#database;
    const letters =
      database &&
      flakyLetters({
        ...flaky,
        random: this.#world.random.fork(`letters of ${node.name}`),
        target: () => database.letterBox,
        listen: (hear) => database.listen(hear),
      });
    return createServer({
      store: flakyStore({ ...flaky, target }),
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
  readonly #world: World;
  readonly #disk: SimDisk;
  readonly #random: Random;

  constructor(world: World, disk: SimDisk, random: Random) {
    this.#world = world;
    this.#disk = disk;
    this.#random = random;
    this.process = new SimProcess(world, "database");
  }

  get target(): { readonly process: SimProcess; readonly store: StreamStore } | undefined {
    return this.#store === undefined ? undefined : { process: this.process, store: this.#store };
  }

  get letterBox(): { readonly process: SimProcess; readonly store: Letters } | undefined {
    return this.#store === undefined ? undefined : { process: this.process, store: this.#letters };
  }

  listen(hear: (hint: Hint) => void): () => void {
    this.#listeners.add(hear);
    return () => this.#listeners.delete(hear);
  }

  boot(): void {
    const process = this.process.restart();
    this.process = process;
    this.#store = undefined;
    process.onCrash(() => {
      this.#store = undefined;
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
    this.#store = this.#letters.around(failing(store, restart));
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
