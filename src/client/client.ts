/**
 * The client: opens streams, goes on with them, and finds at start what was cut off.
 *
 * Every stream has a journal; with persistence off the journal lives in memory and a restart
 * forgets. The stream key is derived from the home key, so none is stored (DESIGN section 8).
 */
import { inspect, type Status } from "../core/auto-resume.ts";
import * as client from "../core/client-state.ts";
import { recover, type Recovered } from "../core/journal.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { checkName } from "../protocol/frame-check.ts";
import type { Role } from "../protocol/frames.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { Sealing } from "../sealing/index.ts";
import { type Environment, systemEnvironment } from "../transport/environment.ts";
import type { Connect } from "../transport/transport.ts";
import { type JournalContents, readJournal } from "./journal-file.ts";
import type { JournalStore } from "./journal-store.ts";
import { memoryJournalStore } from "./memory-journal-store.ts";
import type { StreamContext } from "./stream-context.ts";
import { ClientStream } from "./stream.ts";
import type { Tools } from "./tools.ts";

export interface ClientOptions<HomeKey = Uint8Array> {
  readonly connect: Connect;
  readonly sealing: Sealing<HomeKey>;
  /** One secret per scope; all stream keys are derived from it. */
  readonly homeKey: HomeKey;
  /** Where journals are kept. Without it they live in memory: nothing survives a restart (persistence off). */
  readonly journals?: JournalStore;
  readonly environment?: Environment;
  readonly credentials?: () => Promise<string | undefined>;
  /** What this client carries out for the server. Without it execs are events like any other. */
  readonly tools?: Tools;
  readonly stream?: Partial<client.Options>;
  /** A journal this long is folded and written anew, shorter. */
  readonly journalRecordsMax?: number;
  /** How many streams resume at the same time: one that is stuck must not block the rest. */
  readonly resumesMax?: number;
  readonly onBug?: (bug: unknown) => void;
}

export interface ResumeReport {
  readonly resumed: readonly ClientStream[];
  /** Orphans that were cleared. */
  readonly cleared: readonly string[];
  /** Were generating, and nothing is left to go on from: their status is "aborted". */
  readonly aborted: readonly string[];
  /** Left as they are: damaged, fenced or lost; somebody should look. */
  readonly kept: readonly { readonly idempotencyKey: string; readonly reason: string }[];
}

export interface OpenOptions {
  readonly first?: Uint8Array;
  /** A name of your own; drawn at random when absent. Opening it again attaches to what is there. */
  readonly idempotencyKey?: string;
}

const RESUMES_MAX = 4;

/** About a thousand tool calls or acks. */
const JOURNAL_RECORDS_MAX = 2_000;

export class Client<HomeKey = Uint8Array> {
  readonly #options: ClientOptions<HomeKey>;
  readonly #environment: Environment;
  readonly #journals: JournalStore;
  readonly #context: StreamContext;
  /** One writer per stream: two would share a journal. */
  readonly #writing = new Set<string>();

  constructor(options: ClientOptions<HomeKey>) {
    this.#options = options;
    this.#environment = options.environment ?? systemEnvironment();
    this.#journals = options.journals ?? memoryJournalStore();
    this.#context = {
      connect: options.connect,
      journals: this.#journals,
      journalSealer: options.sealing.homeSealer(options.homeKey),
      environment: this.#environment,
      options: { ...client.DEFAULTS, ...options.stream },
      tools: options.tools,
      journalRecordsMax: options.journalRecordsMax ?? JOURNAL_RECORDS_MAX,
      credentials: options.credentials ?? (async () => undefined),
      onBug: options.onBug ?? (() => undefined),
    };
  }

  /** Begins a stream. A name that has a journal here already is refused: resume it. */
  async open({ first, idempotencyKey }: OpenOptions = {}): Promise<ClientStream> {
    const name = idempotencyKey ?? hex(this.#environment.randomBytes(16));
    checkName(name, LIMITS.idempotencyKeyBytesMax, "an idempotency key", true);
    const known = idempotencyKey === undefined ? undefined : await this.#read(name);
    if (known?.journal !== undefined) {
      throw new HoldfastError("seqno_conflict", "this stream has a journal here already: resume it");
    }
    // Only a name that nobody can have used before may be opened without durability (D5).
    const fresh = idempotencyKey === undefined;
    return this.#begin(name, "writer", newJournal(this.#environment, false), 0, fresh, false, first);
  }

  /** Goes on with a stream of this client's own journals. */
  async resume(idempotencyKey: string): Promise<ClientStream> {
    return this.#resume(idempotencyKey, false);
  }

  /** Becomes the writer of a stream that another client began: that one is fenced (D2). */
  async takeOver(idempotencyKey: string): Promise<ClientStream> {
    checkName(idempotencyKey, LIMITS.idempotencyKeyBytesMax, "an idempotency key", true);
    const { journal } = await this.#read(idempotencyKey);
    if (journal !== undefined && journal.outcome === undefined) {
      throw new HoldfastError("seqno_conflict", "this stream has a journal here already: resume it");
    }
    return this.#begin(
      idempotencyKey,
      "writer",
      newJournal(this.#environment, true),
      0,
      false,
      false,
      undefined,
    );
  }

  /** Follows a stream without writing to it; its tools are somebody else's. */
  async follow(idempotencyKey: string): Promise<ClientStream> {
    checkName(idempotencyKey, LIMITS.idempotencyKeyBytesMax, "an idempotency key", true);
    return this.#begin(
      idempotencyKey,
      "reader",
      newJournal(this.#environment, false),
      0,
      false,
      false,
      undefined,
    );
  }

  /** Stops the turn of a stream that this client is not attached to: the wish goes out with the attach (D3). */
  async abort(idempotencyKey: string): Promise<ClientStream> {
    checkName(idempotencyKey, LIMITS.idempotencyKeyBytesMax, "an idempotency key", true);
    const journal = { ...newJournal(this.#environment, false), abortWanted: true };
    return this.#begin(idempotencyKey, "reader", journal, 0, false, false, undefined);
  }

  /**
   * At start: resumes every stream that was cut off, clears what is orphaned, tells what needs a look.
   * `onResumed` gets each stream at once; the report comes when all of them are live or known not to be.
   */
  async resumeAll(onResumed: (stream: ClientStream) => void = () => undefined): Promise<ResumeReport> {
    const report = {
      resumed: new Array<ClientStream>(),
      cleared: new Array<string>(),
      aborted: new Array<string>(),
      kept: new Array<{ readonly idempotencyKey: string; readonly reason: string }>(),
    };
    const waiting = [...(await this.#journals.list())];
    const worker = async (): Promise<void> => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift())
        await this.#restore(next, report, onResumed);
    };
    await Promise.all(Array.from({ length: this.#options.resumesMax ?? RESUMES_MAX }, worker));
    return report;
  }

  async #restore(
    idempotencyKey: string,
    report: Mutable<ResumeReport>,
    onResumed: (stream: ClientStream) => void,
  ): Promise<void> {
    let journal: Recovered | undefined | "damaged";
    let reason = "it is damaged";
    try {
      journal = (await this.#read(idempotencyKey)).journal;
      if (journal?.outcome !== undefined) reason = `it ended as ${journal.outcome}`;
    } catch (cause) {
      if (!(cause instanceof HoldfastError) || cause.code !== "stream_failed") throw cause;
      journal = "damaged";
      reason = cause.message;
    }
    switch (inspect(journal).kind) {
      case "resume": {
        const stream = await this.#resume(idempotencyKey, true);
        report.resumed.push(stream);
        onResumed(stream);
        await settled(stream);
        return;
      }
      case "clear":
        await this.#journals.remove(idempotencyKey);
        report.cleared.push(idempotencyKey);
        return;
      case "mark_aborted":
        report.aborted.push(idempotencyKey);
        return;
      case "keep":
        report.kept.push({ idempotencyKey, reason });
        return;
    }
  }

  async #resume(idempotencyKey: string, autoResume: boolean): Promise<ClientStream> {
    const { journal, length } = await this.#read(idempotencyKey);
    if (journal === undefined)
      throw new HoldfastError("not_found", "this client has no journal of that stream");
    if (journal.outcome !== undefined) {
      const code = journal.outcome === "fenced" ? "fenced" : "stream_ended";
      throw new HoldfastError(code, `this stream ended here as ${journal.outcome}`);
    }
    if (journal.degraded)
      throw new HoldfastError("stream_ended", "this stream had no durability and cannot be resumed");
    return this.#begin(idempotencyKey, "writer", journal, length, false, autoResume, undefined);
  }

  #read(idempotencyKey: string): Promise<JournalContents> {
    return readJournal(this.#journals, this.#context.journalSealer, idempotencyKey);
  }

  async #begin(
    idempotencyKey: string,
    role: Role,
    journal: Recovered,
    journalLength: number,
    fresh: boolean,
    autoResume: boolean,
    first: Uint8Array | undefined,
  ): Promise<ClientStream> {
    // A reader has nothing to keep, and there may be many.
    const context = role === "writer" ? this.#context : { ...this.#context, journals: memoryJournalStore() };
    const isTaken = role === "writer" && this.#writing.has(idempotencyKey);
    if (isTaken) throw new HoldfastError("fenced", "this client writes to that stream already");
    if (role === "writer") this.#writing.add(idempotencyKey);
    try {
      // A journal that ended is of no more use; a new one begins at its first record.
      if (role === "writer" && journalLength === 0) await this.#journals.remove(idempotencyKey);
      const streamKey = await this.#options.sealing.deriveStreamKey(this.#options.homeKey, idempotencyKey);
      const beginning = { idempotencyKey, streamKey, role, journal, journalLength, fresh, autoResume };
      const stream = new ClientStream(context, beginning);
      await stream.start(first);
      void stream.ended.then(() => this.#writing.delete(idempotencyKey));
      return stream;
    } catch (cause) {
      this.#writing.delete(idempotencyKey);
      throw cause;
    }
  }
}

type Mutable<Report> = {
  [Key in keyof Report]: Report[Key] extends readonly (infer One)[] ? One[] : Report[Key];
};

export type { Status };

/** A resumed stream lets the next one begin once it is live, or known not to be. */
async function settled(stream: ClientStream): Promise<void> {
  const isSettled = (): boolean => stream.status.state !== "connecting";
  if (isSettled()) return;
  await new Promise<void>((resolve) => {
    const stop = stream.watch(() => {
      if (!isSettled()) return;
      stop();
      resolve();
    });
  });
}

function newJournal(environment: Environment, takesOver: boolean): Recovered {
  const journalId = hex(environment.randomBytes(16));
  const opened = recover([{ kind: "opened", journalId, takesOver, createdMs: environment.now() }]);
  if (opened === undefined) throw new Error("an opened journal is there");
  return opened;
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
