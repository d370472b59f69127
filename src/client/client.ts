/**
 * The client: opens streams, resumes them, and finds at start what was cut off.
 *
 * Every stream has a journal; with persistence off the journal lives in memory and a restart
 * forgets. Only a client in the server's own process keeps none. The stream key is derived from the home key, so none is stored.
 */
import { inspect } from "../core/auto-resume.ts";
import type { Outcome, Recovered } from "../core/journal.ts";
import type { StallCounts } from "../core/standstill.ts";
import { HoldfastError } from "../protocol/errors.ts";
import type { Role } from "../protocol/frames.ts";
import { PassingSet } from "../protocol/passing.ts";
import { type Environment, systemEnvironment } from "../transport/environment.ts";
import type { ClientOptions, KeptConversation, OpenOptions } from "./client-options.ts";
import { accessTo, type ConversationBlobs, conversationBlobs } from "./conversation-blobs.ts";
import { appendRecord, type JournalContents, readJournal } from "./journal-file.ts";
import { journalPlaces } from "./journal-places.ts";
import type { JournalStore } from "./journal-store.ts";
import { checkOwnName } from "./own-names.ts";
import { nameOf, newJournal, newName } from "./new-journal.ts";
import {
  beginReport,
  keptReason,
  type ResumeReport,
  type ResumeReportDraft,
  settled,
} from "./resume-report.ts";
import type { StreamContext } from "./stream-context.ts";
import { checkChunkSize } from "./speech.ts";
import { type StreamPlan, streamPlans } from "./stream-options.ts";
import { stallAccount } from "./stall-account.ts";
import { ClientStream } from "./stream.ts";
import type { ToolLimit } from "./tool-limits.ts";
import { writerClaims } from "./writer-claims.ts";

const RESUMES_MAX = 4;

/** About a thousand tool calls or acks. */
const JOURNAL_RECORDS_MAX = 2_000;

export class Client<HomeKey = Uint8Array> {
  readonly #options: ClientOptions<HomeKey>;
  readonly #environment: Environment;
  readonly #keepsJournals: boolean;
  readonly #journals: ReturnType<typeof journalPlaces>;
  readonly #plan: () => StreamPlan;
  /** What all streams share. */
  readonly #context: Omit<StreamContext, "options" | "journals">;
  readonly #stalls: ReturnType<typeof stallAccount>;
  readonly #toolLimits: ToolLimit[] = [];
  readonly #writing: ReturnType<typeof writerClaims>;
  readonly #streams = new PassingSet<ClientStream>();
  /** Not yet among the streams: they wait for credentials. */
  readonly #beginning = new PassingSet<ClientStream>();
  readonly #closing = new AbortController();

  constructor(options: ClientOptions<HomeKey>) {
    this.#options = options;
    this.#environment = options.environment ?? systemEnvironment();
    this.#writing = writerClaims(options.writerLocks);
    if (options.journals === "none" && options.tools !== undefined)
      throw new HoldfastError("invalid_argument", "a client without journals cannot run tools");
    this.#keepsJournals = options.journals !== "none";
    this.#journals = journalPlaces(
      options.journals === "none" ? undefined : options.journals,
      options.forgetsEnded,
    );
    const onBug = options.onBug ?? reportBug;
    this.#plan = streamPlans(options.stream, onBug);
    this.#stalls = stallAccount(options.onStall, onBug);
    this.#context = {
      connect: options.connect,
      blobs: options.blobs,
      closing: this.#closing.signal,
      journalSealer: options.sealing.homeSealer(options.homeKey),
      sha256: options.sealing.sha256,
      environment: this.#environment,
      tools: options.tools,
      toolLimits: this.#toolLimits,
      journalRecordsMax: options.journalRecordsMax ?? JOURNAL_RECORDS_MAX,
      credentials: options.credentials ?? (async () => undefined),
      onBug,
      onStall: (news) => this.#stalls.tell(news),
    };
  }

  /** How often streams of this client stood still, and how many do now. */
  get stalls(): StallCounts {
    return this.#stalls.counts;
  }

  /** From now on no tool runs that the limit refuses, whatever a server asks for. */
  limitTools(limit: ToolLimit): void {
    this.#toolLimits.push(limit);
  }

  /** Begins a stream. A name that has a journal here already is refused: resume it. */
  async open(options: OpenOptions = {}): Promise<ClientStream> {
    const { first, idempotencyKey, conversation, isFresh = false } = options;
    checkChunkSize(first);
    // Only a name that no client can have used before may be opened without durability (D5).
    const fresh = isFresh || idempotencyKey === undefined;
    const name = idempotencyKey ?? newName(this.#environment);
    return this.#asWriter(name, async () => {
      if (!fresh) await this.#makeRoom(name);
      const journal = newJournal(this.#environment, false);
      return this.#begin(name, "writer", { journal, conversation, fresh }, first);
    });
  }

  /** A stream that is open here, as its writer has it if there is one; undefined when none is. */
  get(idempotencyKey: string): ClientStream | undefined {
    const open = [...this.#streams].filter((stream) => stream.idempotencyKey === idempotencyKey);
    return open.find(({ role }) => role === "writer") ?? open[0];
  }

  /** Resumes a stream of this client's own journals. `abort`: to end it; the wish goes out with the attach, so its turn does nothing more (D3). */
  async resume(
    idempotencyKey: string,
    { abort = false, conversation }: ResumeOptions = {},
  ): Promise<ClientStream> {
    return this.#asWriter(idempotencyKey, async () => {
      if (!this.#keepsJournals) {
        const journal = { ...newJournal(this.#environment, true), abortWanted: abort };
        return this.#begin(idempotencyKey, "writer", { journal, conversation });
      }
      const found = await this.#read(idempotencyKey);
      if (isOver(found.journal?.outcome)) await this.#journals.ended(idempotencyKey);
      const journal =
        abort && found.journal !== undefined ? { ...found.journal, abortWanted: true } : found.journal;
      return this.#resumeFrom(idempotencyKey, { ...found, journal }, { autoResume: false, conversation });
    });
  }

  /** Becomes the writer of a stream that another client began: that one is fenced (D2). */
  async takeOver(idempotencyKey: string): Promise<ClientStream> {
    return this.#asWriter(idempotencyKey, async () => {
      await this.#makeRoom(idempotencyKey);
      return this.#begin(idempotencyKey, "writer", { journal: newJournal(this.#environment, true) });
    });
  }

  /** Follows a stream without writing to it, from behind an event on. `peek`: for what its log has; a turn that does not run is not made to (G7). */
  async follow(idempotencyKey: string, after = 0, { peek = false } = {}): Promise<ClientStream> {
    checkStreamName(idempotencyKey);
    const begun = newJournal(this.#environment, false);
    const journal = after === 0 ? begun : { ...begun, snapshot: { cursor: after, state: new Uint8Array() } };
    return this.#begin(idempotencyKey, "reader", { journal, peeks: peek });
  }

  /** Stops the turn of a stream that this client is not attached to: the wish goes out with the attach (D3). */
  async abort(idempotencyKey: string): Promise<ClientStream> {
    checkStreamName(idempotencyKey);
    const journal = { ...newJournal(this.#environment, false), abortWanted: true };
    return this.#begin(idempotencyKey, "reader", { journal });
  }

  /** Removes the journal of a stream that is over for this client, or one that is damaged; an open one is refused. */
  async forget(idempotencyKey: string): Promise<void> {
    await this.#asWriter(idempotencyKey, async () => {
      try {
        await this.#makeRoom(idempotencyKey);
      } catch (cause) {
        if (HoldfastError.codeOf(cause) !== "stream_failed") throw cause;
        const journals = await this.#journals.of(idempotencyKey);
        await journals.remove(idempotencyKey);
      }
    });
    this.#writing.release(idempotencyKey);
  }

  /** Streams that wait try again at once: the network is back, the user looks at the page. */
  wake(): void {
    for (const stream of this.#streams) stream.wake();
  }

  /** Leaves all streams; resolves when their journals are quiet. They can be resumed. */
  async close(): Promise<void> {
    this.#closing.abort(new HoldfastError("unavailable", "this client was closed"));
    const streams = [...this.#streams, ...this.#beginning];
    for (const stream of streams) stream.leave();
    await Promise.all(streams.map((stream) => stream.ended));
  }

  /**
   * At start: resumes every stream that was cut off, clears what is over, names what it keeps and why. `onResumed` gets each stream at once, before the server has said how
   * old it is; the report comes when each is live, over, or had its try. A stream that turns out too old ends here (`status.isSkipped`) and is kept.
   */
  async resumeAll(onResumed: (stream: ClientStream) => void = () => undefined): Promise<ResumeReport> {
    const report = beginReport();
    const waiting = (await this.#journals.list()).filter((name) => !this.#writing.has(name));
    const worker = async (): Promise<void> => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        await this.#restore(next, report, onResumed);
      }
    };
    await Promise.all(Array.from({ length: this.#options.resumesMax ?? RESUMES_MAX }, worker));
    return report;
  }

  async #restore(
    idempotencyKey: string,
    report: ResumeReportDraft,
    onResumed: (stream: ClientStream) => void,
  ): Promise<void> {
    try {
      const holder = await this.#writing.claim(idempotencyKey);
      if (holder !== undefined) {
        report.elsewhere.push({ idempotencyKey, holder });
        return;
      }
      let stream;
      try {
        stream = await this.#found(idempotencyKey, report);
      } finally {
        if (stream === undefined) this.#writing.release(idempotencyKey);
      }
      if (stream === undefined) return;
      onResumed(stream);
      await settled(stream, this.#environment, this.#plan().options.attachTimeoutMs);
      const { isSkipped, failure } = stream.status;
      if (!isSkipped) {
        report.resumed.push(stream);
        return;
      }
      // Once its journal is quiet its lock is free, so that it can be resumed by its name.
      await stream.ended;
      report.kept.push({ idempotencyKey, reason: failure?.message ?? "" });
    } catch (cause) {
      // One journal that cannot be read or resumed must not keep the others from it.
      const { message, code } = HoldfastError.from(cause);
      const remedy = code === "stream_failed" ? "; forget(idempotencyKey) removes it" : "";
      report.kept.push({ idempotencyKey, reason: message + remedy });
    }
  }

  /** Does what is to be done about a journal found at start; the stream, when it is to be resumed. */
  async #found(idempotencyKey: string, report: ResumeReportDraft): Promise<ClientStream | undefined> {
    const contents = await this.#read(idempotencyKey);
    switch (inspect(contents.journal).kind) {
      case "resume":
        return this.#resumeFrom(idempotencyKey, contents, { autoResume: true });
      case "clear":
        await this.#makeRoom(idempotencyKey);
        report.cleared.push(idempotencyKey);
        return undefined;
      case "mark_aborted": {
        // Reported once: the next start finds it ended.
        const ended = { kind: "ended", outcome: "aborted" } as const;
        await appendRecord(
          contents.journals,
          this.#context.journalSealer,
          idempotencyKey,
          contents.length,
          ended,
        );
        report.aborted.push(idempotencyKey);
        return undefined;
      }
      case "keep":
        report.kept.push({ idempotencyKey, reason: keptReason(contents.journal?.outcome) });
        return undefined;
    }
  }

  #resumeFrom(
    idempotencyKey: string,
    { journal, length, journals }: Found,
    how: Pick<Begin, "autoResume" | "conversation">,
  ): Promise<ClientStream> {
    if (journal === undefined) {
      throw new HoldfastError("not_found", "this client has no journal of that stream");
    }
    if (journal.outcome !== undefined) {
      const code = journal.outcome === "fenced" ? "fenced" : "stream_ended";
      throw new HoldfastError(code, `this stream ended here as ${journal.outcome}`);
    }
    if (journal.degraded) {
      throw new HoldfastError("stream_ended", "this stream had no durability and cannot be resumed");
    }
    return this.#begin(idempotencyKey, "writer", { journal, length, journals, ...how });
  }

  async #read(idempotencyKey: string): Promise<Found> {
    const journals = await this.#journals.of(idempotencyKey);
    const contents = await readJournal(journals, this.#context.journalSealer, idempotencyKey);
    return { ...contents, journals };
  }

  /** A new journal may take the place of one that ended, never of one that can still be resumed. */
  async #makeRoom(idempotencyKey: string): Promise<void> {
    const { journal, journals } = await this.#read(idempotencyKey);
    if (journal !== undefined && journal.outcome === undefined) {
      throw new HoldfastError("already_exists", "this stream has a journal here already: resume it");
    }
    await journals.remove(idempotencyKey);
  }

  async #asWriter<Result>(idempotencyKey: string, run: () => Promise<Result>): Promise<Result> {
    checkStreamName(idempotencyKey);
    const holder = await this.#writing.claim(idempotencyKey);
    if (holder !== undefined) {
      throw new HoldfastError("busy", `${holder} writes to that stream already: follow it instead`);
    }
    try {
      return await run();
    } catch (cause) {
      this.#writing.release(idempotencyKey);
      throw cause;
    }
  }

  async #begin(idempotencyKey: string, role: Role, begin: Begin, first?: Uint8Array): Promise<ClientStream> {
    const { journal, length = 0, fresh = false, autoResume = false, peeks = false } = begin;
    const { options, persistence } = this.#plan();
    const { sealing, homeKey } = this.#options;
    // A reader has nothing to keep, and there may be many.
    const keepsJournal = role === "writer" && this.#keepsJournals;
    const journals = keepsJournal ? (begin.journals ?? this.#journals.forNew(persistence)) : undefined;
    const context = { ...this.#context, options, journals };
    const streamKey = await sealing.deriveStreamKey(homeKey, idempotencyKey);
    // The same at each attach, so that a writer without a journal stays the same writer.
    const journalId = keepsJournal ? journal.journalId : nameOf(await sealing.keyCheck(streamKey));
    const how = { fresh, autoResume, peeks };
    const beginning = {
      idempotencyKey,
      streamKey,
      conversation: begin.conversation && (await accessTo(begin.conversation, this.#options)),
      role,
      journal: { ...journal, journalId },
      journalLength: length,
      ...how,
    };
    // A closed client would never leave it.
    if (this.#closing.signal.aborted)
      throw new HoldfastError("unavailable", "this client was closed: open another one");
    const stream = new ClientStream(context, beginning);
    this.#beginning.add(stream);
    try {
      await stream.start(first);
    } finally {
      this.#beginning.delete(stream);
    }
    this.#streams.add(stream);
    void stream.ended.then((outcome) => this.#ended(stream, role, outcome));
    return stream;
  }

  /** The blobs of a conversation that the server keeps, beside its streams. */
  async conversation(kept: KeptConversation): Promise<ConversationBlobs> {
    const access = await accessTo(kept, this.#options);
    return conversationBlobs({ ...this.#context, options: this.#plan().options }, access);
  }

  async #ended(stream: ClientStream, role: Role, outcome: Outcome | undefined): Promise<void> {
    this.#streams.delete(stream);
    if (role === "reader") return;
    const { idempotencyKey } = stream;
    const removed = isOver(outcome) ? this.#journals.ended(idempotencyKey) : undefined;
    // At once: a caller that has waited for the end may forget or open the stream.
    this.#writing.release(idempotencyKey);
    await removed;
  }
}

/** Where a stream begins; what is left out is as for a new one. */
interface Begin {
  readonly journal: Recovered;
  readonly length?: number;
  /** Where the journal is; absent: it begins now, where the switch says. */
  readonly journals?: JournalStore;
  readonly fresh?: boolean;
  readonly autoResume?: boolean;
  readonly peeks?: boolean;
  readonly conversation?: KeptConversation | undefined;
}

interface ResumeOptions extends Pick<Begin, "conversation"> {
  readonly abort?: boolean;
}

/** A journal, and where it was found. */
interface Found extends JournalContents {
  readonly journals: JournalStore;
}

function checkStreamName(idempotencyKey: string): void {
  checkOwnName(idempotencyKey, "an idempotency key");
}

/** As opposed to one that ended for this client alone, whose journal may still be needed. */
function isOver(outcome: Outcome | undefined): boolean {
  return outcome === "completed" || outcome === "aborted" || outcome === "failed";
}

/** Without a listener bugs go where the platform has a place for them. */
export function reportBug(bug: unknown): void {
  const reporter: unknown = Reflect.get(globalThis, "reportError");
  if (typeof reporter === "function") Reflect.apply(reporter, globalThis, [bug]);
}
