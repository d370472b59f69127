/**
 * A user's machine: a disk, and one life of the client after the other.
 *
 * Does what users do, opens, speaks, stops, takes over from another device, watches from a second
 * tab, and checks everything that the client hands to the application.
 */
import { Client, type ClientStream, type StreamEvent, toolRunner } from "../../src/client/index.ts";
import type { StreamOptions } from "../../src/client/index.ts";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { SteadyClock } from "../../src/transport/environment.ts";
import {
  decodeTurnEvent,
  encodeCancel,
  encodeRequest,
  encodeWords,
  type FirstWords,
} from "./agent-messages.ts";
import { checkFinalError } from "./final-error-checks.ts";
import { checkSameAsLog } from "./frame-checks.ts";
import type { Ledger } from "./ledger.ts";
import { fail } from "./log-checks.ts";
import { digestOfEvents, foldEvent } from "./reading.ts";
import { RetryChecks } from "./retry-checks.ts";
import { ToolFloor } from "./sim-tools.ts";
import { checkCounts, checkNoneLeft, checkTime } from "./stall-checks.ts";
import type { Truth } from "./truth.ts";
import { type BlobTarget, putAndGet, simulatedBlobCalls } from "./uploads.ts";
import type { UserBlobs } from "./user-blobs.ts";
import { type Random, SimDisk, type SimNetwork, SimProcess, type World } from "./world/index.ts";

export interface DeviceContext {
  readonly world: World;
  readonly network: SimNetwork;
  readonly truth: Truth;
  readonly ledger: Ledger;
  readonly blobs: UserBlobs;
  readonly homeKey: Uint8Array;
  readonly principal: string;
  readonly stream: Partial<StreamOptions>;
  /** Where a connection goes: one of the nodes. */
  readonly pickNode: () => string | undefined;
  /** Where blobs are put beside a stream; undefined where there are none. */
  readonly blobTarget?: BlobTarget | undefined;
  /** Whether what is shown of the next turn cannot be taken back. */
  readonly isShownFinal: () => boolean;
}

/** One stream as this life of the client has it. */
interface Held {
  readonly stream: ClientStream;
  readonly role: "writer" | "reader";
  readonly tag: string;
  isOver: boolean;
  /** Answers to the server that are not on this device's disk yet. */
  unsaid: number;
}

/** What a user begins with now and then, beside a question. */
const BEGINNINGS: readonly FirstWords["beginning"][] = ["command", "continue", "summarize"];

export class Device {
  readonly name: string;
  readonly disk: SimDisk;
  process: SimProcess;
  hasFailedDisk = false;
  /** The life that has gone on with what it found. */
  settled: SimProcess | undefined;
  readonly #context: DeviceContext;
  readonly #random: Random;
  readonly #tools: ToolFloor;
  /** Which journal a stream's words come from on this device; survives crashes like the journal. */
  readonly #tags = new Map<string, string>();
  readonly #indexes = new Map<string, number>();
  #held = new Map<string, Held>();
  #tabs: Held[] = [];
  /** The streams that this life has left and come back to. */
  #left: string[] = [];
  /** The execs of which this life has read, or has kept in a snapshot, that they are not wanted any more. */
  #takenBack = new Set<string>();
  #client: Client | undefined;
  #journals = 0;

  constructor(context: DeviceContext, name: string) {
    this.#context = context;
    this.name = name;
    this.disk = new SimDisk(context.world, `disk of ${name}`);
    this.#random = context.world.random.fork(`device ${name}`);
    this.#tools = new ToolFloor(context.world, context.ledger, name);
    this.process = new SimProcess(context.world, name);
  }

  /** Starts a new life of the client and goes on with what it finds. */
  boot(): void {
    const { world, network, homeKey, principal, truth, blobTarget } = this.#context;
    this.process = this.process.restart();
    this.#held = new Map();
    this.#tabs = [];
    this.#left = [];
    this.#takenBack = new Set();
    this.hasFailedDisk = false;
    const process = this.process;
    const retries = new RetryChecks(new SteadyClock(process.env));
    const connect = network.connectFrom(process, this.#context.pickNode);
    this.#client = new Client({
      connect: (meta, handler) => {
        const { idempotencyKey } = meta;
        const tabs = this.#tabs.filter(({ stream }) => stream.idempotencyKey === idempotencyKey);
        const isBack = this.#held.get(idempotencyKey)?.isOver === true;
        const left = this.#left.filter((key) => key === idempotencyKey);
        retries.connecting(idempotencyKey, tabs.length + left.length + (isBack ? 1 : 0));
        return connect(meta, handler);
      },
      sealing: nodeSealing({ randomBytes: (length) => process.env.randomBytes(length) }),
      homeKey,
      journals: this.disk.openJournalStore(process),
      blobs: blobTarget && simulatedBlobCalls(process, principal, blobTarget),
      environment: process.env,
      // Tokens run out: the first one asked for may be refused.
      credentials: () => Promise.resolve(this.#random.chance(0.05) ? undefined : principal),
      tools: toolRunner(this.#tools.toolsOf(process, (...exec) => this.#takenBack.has(exec.join(" ")))),
      stream: this.#context.stream,
      journalRecordsMax: 5,
      onBug: (bug) => world.fail(bug),
      onStall: (news) => {
        checkTime(news);
        world.hit(`sometimes.client.${news.kind}`);
        if (this.#client !== undefined && process === this.process) checkCounts(this.#client.stalls);
      },
    });
    const onResumed = (stream: ClientStream): void => {
      world.trace(this.name, "resumes", stream.idempotencyKey);
      world.hit("sometimes.auto_resumed");
      const [{ idempotencyKey }, { ledger }] = [stream, this.#context];
      const ranDegraded = ledger.isEcho(idempotencyKey) && ledger.hasRun(this.name, idempotencyKey);
      if (ranDegraded && truth.of(principal, idempotencyKey) === undefined) {
        world.fail(new Error("D5: a stream that ran without durability was resumed"));
      }
      this.#hold(stream, "writer", this.#tags.get(stream.idempotencyKey) ?? "?");
    };
    this.#spawn(process, async (client) => {
      const report = await client.resumeAll(onResumed).finally(() => (this.settled = process));
      for (const { reason } of report.kept) this.#checkKept(reason);
      if (report.aborted.length > 0) world.hit("sometimes.marked_aborted");
    });
  }

  /** A journal that cannot be read any more must have been damaged by somebody. */
  #checkKept(reason: string): void {
    const { world } = this.#context;
    const isDamaged = /damaged|does not open/.test(reason);
    world.hit(isDamaged ? "sometimes.journal_damaged" : "sometimes.journal_kept");
    if (isDamaged && world.counters.of("disk.bit_flip") === 0) {
      world.fail(new Error(`A5: a journal cannot be read, and nothing has damaged it: ${reason}`));
    }
  }

  openStream(endless: boolean): void {
    const { ledger, blobs } = this.#context;
    // An endless conversation would be endless whatever is asked next.
    const isMeant = (key: string): boolean => ledger.streams.get(key) === false;
    const state = this.#random.chance(0.5) && !endless ? blobs.lastState(isMeant) : undefined;
    const keepsBlobs = state !== undefined || this.#random.chance(0.5);
    const others = state === undefined ? BEGINNINGS.slice(0, 1) : BEGINNINGS;
    const beginning = endless || this.#random.chance(0.7) ? "ask" : this.#random.pick(others);
    const isShownFinal = this.#context.isShownFinal();
    this.#spawn(this.process, async (client) => {
      const tag = `${this.name}.${this.#journals++}`;
      const stream = await client.open({
        first: encodeRequest(tag, { beginning, endless, keepsBlobs, state, isShownFinal }),
      });
      this.#indexes.set(tag, 1);
      this.#tags.set(stream.idempotencyKey, tag);
      ledger.opened(stream.idempotencyKey, endless);
      this.#hold(stream, "writer", tag);
    });
  }

  takeOver(idempotencyKey: string): void {
    if (this.holds(idempotencyKey)) return;
    this.#spawn(this.process, async (client) => {
      const tag = `${this.name}.${this.#journals++}`;
      const stream = await client.takeOver(idempotencyKey);
      this.#context.ledger.beginsAnew(this.name, idempotencyKey);
      this.#indexes.set(tag, 0);
      this.#tags.set(idempotencyKey, tag);
      this.#hold(stream, "writer", tag);
    });
  }

  follow(idempotencyKey: string): void {
    if (this.holds(idempotencyKey)) return;
    this.#spawn(this.process, async (client) => {
      this.#hold(await client.follow(idempotencyKey), "reader", "");
    });
  }

  /** A second tab of the same device: it shares everything and attaches as a reader. */
  openTab(): void {
    const held = this.#pick("writer");
    if (held === undefined) return;
    this.#spawn(this.process, async (client) => {
      const stream = await client.follow(held.stream.idempotencyKey);
      const tab: Held = { stream, role: "reader", tag: "", isOver: false, unsaid: 0 };
      this.#tabs.push(tab);
      this.#context.world.hit("sometimes.second_tab");
      this.#consume(tab).catch((cause: unknown) => this.#context.world.fail(cause));
    });
  }

  /** Stops a stream that it does not hold. */
  abortFromOutside(idempotencyKey: string): void {
    if (this.holds(idempotencyKey)) {
      this.abort(idempotencyKey);
      return;
    }
    this.#context.ledger.abortWanted(idempotencyKey);
    this.#spawn(this.process, async (client) => {
      this.#hold(await client.abort(idempotencyKey), "reader", "");
    });
  }

  /** Says something on one of the streams it writes, without waiting for an answer between. */
  speak(times = 1): void {
    const held = this.#pick("writer");
    if (held === undefined) return;
    const { tag, stream } = held;
    const first = this.#indexes.get(tag) ?? 0;
    this.#indexes.set(tag, first + times);
    for (let index = first; index < first + times; index++) {
      void stream.send(encodeWords(tag, index)).then(
        () => this.#context.ledger.promised(tag, index),
        () => undefined,
      );
    }
  }

  /** Puts a blob beside a stream, over breaks, and fetches it again. */
  upload(bytes: Uint8Array): void {
    const held = this.#pick("writer");
    if (held === undefined) return;
    const [{ world, truth, principal }, { stream }] = [this.#context, held];
    const isThere = (): boolean => truth.of(principal, stream.idempotencyKey)?.isGone === false;
    this.#spawn(this.process, () => putAndGet(world, stream, bytes, isThere));
  }

  /** The user stops the turn, and what it runs; it ends in good order. */
  cancel(): void {
    const held = this.#pick("writer");
    // Endless answers are for aborts: one that gets lost must be noticed.
    if (held === undefined || this.#context.ledger.streams.get(held.stream.idempotencyKey) === true) return;
    void held.stream.send(encodeCancel()).catch(() => undefined);
  }

  close(): void {
    const held = this.#pick("writer");
    if (held !== undefined) void held.stream.close().catch(() => undefined);
  }

  abort(idempotencyKey?: string): void {
    const held = idempotencyKey === undefined ? this.#pick(undefined) : this.#held.get(idempotencyKey);
    if (held === undefined || held.isOver) return;
    this.#context.world.trace(this.name, "aborts", held.stream.idempotencyKey);
    this.#context.ledger.abortWanted(held.stream.idempotencyKey);
    const { stream } = held;
    void stream.abort().then(
      () => this.#context.ledger.abortPromised(stream.idempotencyKey),
      () => undefined,
    );
  }

  wake(): void {
    this.#pick(undefined)?.stream.wake();
  }

  /** The streams that this life holds and that are not over for it. */
  get open(): readonly ClientStream[] {
    return [...this.#held.values(), ...this.#tabs]
      .filter(({ isOver }) => !isOver)
      .map(({ stream }) => stream);
  }

  /** When nothing is open any more. */
  checkStalls(): void {
    if (this.#client !== undefined) checkNoneLeft(this.name, this.#client.stalls);
  }

  holds(idempotencyKey: string): boolean {
    return this.#held.get(idempotencyKey)?.isOver === false;
  }

  #hold(stream: ClientStream, role: Held["role"], tag: string): void {
    const held: Held = { stream, role, tag, isOver: false, unsaid: 0 };
    if (this.#held.has(stream.idempotencyKey)) this.#left.push(stream.idempotencyKey);
    this.#held.set(stream.idempotencyKey, held);
    stream.watch(({ state }) => {
      this.#context.world.trace(this.name, state, stream.idempotencyKey);
      if (state === "stalled") this.#context.world.hit("sometimes.stalled");
    });
    void this.#consume(held).catch((cause: unknown) => this.#context.world.fail(cause));
  }

  /** Reads as an application does, now and then slowly, and keeps snapshots. */
  async #consume(held: Held): Promise<void> {
    const { stream } = held;
    const { world, truth, principal } = this.#context;
    const process = this.process;
    let cursor = stream.restored?.cursor ?? 0;
    let digest = stream.restored === undefined ? 0 : Number(Buffer.from(stream.restored.state).toString());
    if (stream.restored !== undefined) {
      world.hit("sometimes.snapshot_restored");
      const log = truth.of(principal, stream.idempotencyKey);
      if (log !== undefined && digestOfEvents(log, cursor) !== digest) {
        fail("B3", `a snapshot at ${cursor} does not cover what came before it`);
      }
      for (const { body } of log?.events.slice(0, cursor) ?? []) this.#noteTakenBack(stream, body);
    }
    try {
      for await (const event of stream.events) {
        cursor = this.#check(stream, event, cursor);
        digest = foldEvent(digest, event.body);
        if (held.role === "writer") this.#heed(held, event.body);
        if (this.#random.chance(0.05)) await pause(process, this.#random.int(2_000));
        const isWriter = held.role === "writer" && held.unsaid === 0;
        const mayKeep = isWriter && event.eventId > 0 && event.end === undefined;
        if (mayKeep && this.#random.chance(0.15)) stream.snapshot(cursor, Buffer.from(String(digest)));
      }
    } catch (cause) {
      if (!(cause instanceof HoldfastError)) throw cause;
      this.#checkFailure(held, cause);
    }
    const outcome = await stream.ended;
    held.isOver = true;
    const isForgotten = held.role === "writer" && outcome !== undefined && this.#random.chance(0.5);
    if (isForgotten) this.#spawn(process, (client) => client.forget(stream.idempotencyKey));
    const end = truth.of(principal, stream.idempotencyKey)?.state.end;
    const isVerdict = outcome === "completed" || outcome === "failed";
    if (isVerdict && cursor > 0 && end !== outcome)
      fail("B6", `a client took ${outcome} for the end, the log has ${end}`);
  }

  /** Answers what the server asks. A snapshot must not cover a question whose answer may be lost. */
  #heed(held: Held, body: Uint8Array): void {
    this.#noteTakenBack(held.stream, body);
    const { stream } = held;
    const answer = body.length === 0 ? undefined : this.#context.blobs.answer(stream.idempotencyKey, body);
    if (answer === undefined) return;
    held.unsaid++;
    const said = (): void => void held.unsaid--;
    // A stream that is over needs no answer; one whose disk failed is read again by the next life.
    stream.send(answer).then(said, () => undefined);
  }

  #noteTakenBack({ idempotencyKey }: ClientStream, body: Uint8Array): void {
    const event = body.length === 0 ? undefined : decodeTurnEvent(body);
    if (event?.kind === "exec_taken_back") this.#takenBack.add(`${idempotencyKey} ${event.execId}`);
  }

  #check(stream: ClientStream, event: StreamEvent, cursor: number): number {
    if (event.eventId === 0) return 0;
    if (event.eventId !== cursor + 1) fail("B1", `${this.name} got event ${event.eventId} after ${cursor}`);
    const log = this.#context.truth.of(this.#context.principal, stream.idempotencyKey);
    if (log === undefined) fail("B2", `${this.name} got an event of a stream that is not there`);
    checkSameAsLog(log, event.eventId, event.body);
    return event.eventId;
  }

  #checkFailure({ stream, role }: Held, error: HoldfastError): void {
    const { world, truth, principal, ledger } = this.#context;
    ledger.gaveUp(stream.idempotencyKey, error.code);
    world.trace(this.name, "gives up", stream.idempotencyKey, error.code);
    world.hit(`sometimes.failed.${error.code}`);
    checkFinalError(world, truth.of(principal, stream.idempotencyKey), role, error);
    // Its disk failed under it, and stays so until the program is started again.
    if (error.code === "unavailable" && error.message.includes("journal")) this.hasFailedDisk = true;
  }

  #pick(role: Held["role"] | undefined): Held | undefined {
    const open = [...this.#held.values()].filter(
      (held) => !held.isOver && (role === undefined || held.role === role),
    );
    return open.length === 0 ? undefined : this.#random.pick(open);
  }

  #spawn(process: SimProcess, run: (client: Client) => Promise<void>): void {
    const client = this.#client;
    if (client === undefined || !process.alive) return;
    run(client).catch((cause: unknown) => {
      // A disk that failed under the client: it cannot open anything until the next life.
      if (cause instanceof HoldfastError) this.#context.world.hit(`sometimes.refused.${cause.code}`);
      else this.#context.world.fail(cause);
    });
  }
}

function pause(process: SimProcess, delayMs: number): Promise<void> {
  return new Promise((resolve) => {
    process.env.after(delayMs, resolve);
  });
}
