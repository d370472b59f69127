/**
 * One call of a model at its provider: the `fetch` below the SDK.
 *
 * The SDKs read a body to its end and know nothing of its fate. So their `fetch` is ours: it passes whole events only, notes the finish marker,
 * and ends the body in good order when the connection dies, or stays quiet, behind it. What breaks before is noted in `broken` and the body
 * ends. What the SDK makes of such a body does not count: its reader looks at `broken` first.
 *
 * A dialect that is read here (`chat-chunks.ts`) takes the same events by `next`: then the SDK only writes the request and reads refusals.
 *
 * Where the provider keeps the generation, a break is followed by another connection that reads it on (`resumption.ts`): then nothing broke for the SDK.
 *
 * The clocks stand still while the reader above is busy: a provider is not blamed for our own disk.
 *
 * Invariant: when the call is over, or the reader has gone, nothing of it runs at the provider (G4).
 */
import { assert } from "../../../protocol/assert.ts";
import { LetGo } from "../../../protocol/let-go.ts";
import type { Fetch } from "../providers.ts";
import * as progress from "./answer-progress.ts";
import { headersOf, type Reader, readerOf } from "./arriving-bytes.ts";
import { BackgroundRun, inBackground } from "./background-run.ts";
import {
  type CallClock,
  Connection,
  type Ended,
  type FetchInit,
  type FetchInput,
  type Read,
} from "./connection.ts";
import {
  type Begun,
  type GivenEvent,
  type GivenEvents,
  type Source,
  type Step,
  TAKEN,
} from "./given-events.ts";
import { HoldfastAnswer, STREAM_HEADER } from "./holdfast-answer.ts";
import { isPassing } from "./passing.ts";
import { type BreakReport, ProviderBreak } from "./provider-break.ts";
import { addressOf, Redirected } from "./redirects.ts";
import { Resuming } from "./resuming.ts";
import type { Resumption } from "./resumption.ts";
import { type SseEvent, SseSplitter } from "./sse-events.ts";
import { SYSTEM_TIME, type Time } from "./time.ts";
import type { UpstreamOptions } from "./upstream-options.ts";
import { lastWordOf, type Meaning, wireEventOf } from "./wire-events.ts";

/** How long a provider may take for what follows its finish marker: the usage, the end of the body. */
const ENDING_MS = 2_000;

/** The pause before a generation is asked for a second time. */
const BACKOFF_MS = 1_000;

/** So long the name of a run is waited for that is not wanted any more: without it the run cannot be cancelled. */
const NAME_MS = 5_000;

export class UpstreamCall {
  /** Why there is no answer, or no whole one. */
  broken: ProviderBreak | undefined;
  readonly #options: UpstreamOptions;
  readonly #time: Time;
  #progress: progress.State;
  /** What the event before meant, of those that came at once. */
  #heard: Meaning | undefined;
  #splitter: SseSplitter | undefined;
  readonly #clock: CallClock;
  #connection: Connection;
  #resumption: Resumption | undefined;
  #resuming: Resuming | undefined;
  /** When the connection broke that another one has replaced, while no content has come since. */
  #brokeMs: number | undefined;
  #isResumed = false;
  #source: Source | undefined;
  /** Nothing more is wanted of the provider. */
  #hasLeft = false;
  /** How long our own reader was busy with what it had. */
  #pausedMs = 0;
  #pausedAtMs: number | undefined;

  constructor(options: UpstreamOptions) {
    this.#options = options;
    this.#time = options.time ?? SYSTEM_TIME;
    this.#progress = progress.init(this.#nowMs, options.provider.pings);
    this.#clock = {
      nowMs: () => this.#nowMs,
      after: (delayMs, run) => this.#time.after(delayMs, run),
      deadlineMs: () => this.#deadlineMs,
      isWhole: () => progress.isWhole(this.#progress),
    };
    this.#connection = new Connection(this.#clock);
  }

  /** For the SDK; one that continues an answer by another request calls it again. */
  readonly fetch: Fetch = async (input, init) => {
    this.#splitter = undefined;
    this.#progress = progress.init(this.#nowMs, this.#options.provider.pings);
    this.#resumption = undefined;
    this.#hasLeft = false;
    this.#resuming = undefined;
    const caller = init?.signal ?? undefined;
    const { response, reader, head } = await this.#begin(input, init);
    if (!response.ok) return this.#refusal(response);
    const headers = headersOf(response);
    if (this.#options.dialect === "openai-compatible" && headers.some(([name]) => name === STREAM_HEADER))
      this.#resumption = new HoldfastAnswer(addressOf(input), new Headers(init?.headers), headers);
    caller?.addEventListener("abort", () => this.#leave(caller.reason), { once: true });
    this.#source = { caller, reader: reader ?? readerOf(response), next: head };
    this.#pausedAtMs = this.#time.monotonic();
    if (this.#options.isReadByEvents === true) throw TAKEN;
    return new Response(this.#body(), { status: 200, headers });
  };

  async #begin(input: FetchInput, init: FetchInit): Promise<Begun> {
    const { dialect, resume = false, provider } = this.#options;
    const body = init?.body;
    if (dialect !== "openai" || !resume || provider.takesBackground === false || typeof body !== "string")
      return { response: await this.#send(input, init) };
    const begun = await this.#beginRun(input, { ...init, body: inBackground(body) });
    if (begun.response.ok) provider.takesBackground = true;
    if (begun.response.status !== 400 || provider.takesBackground === true) return begun;
    // Accounts that store nothing, and servers that do not know the word, take the request without it.
    await begun.response.body?.cancel();
    const response = await this.#send(input, init);
    if (response.ok) provider.takesBackground = false;
    return { response };
  }

  /** A run can only be cancelled by its name: that is waited for, also when the caller has gone meanwhile (G4). */
  async #beginRun(input: FetchInput, init: NonNullable<FetchInit>): Promise<Begun> {
    const run = new BackgroundRun(addressOf(input), new Headers(init.headers));
    const caller = init.signal ?? undefined;
    caller?.throwIfAborted();
    const begun = this.#named(run, input, { ...init, signal: null });
    const gone = Promise.withResolvers<never>();
    const leave = (): void => gone.reject(caller?.reason);
    caller?.addEventListener("abort", leave, { once: true });
    try {
      const named = await Promise.race([begun, gone.promise]);
      this.#resumption = run;
      return named;
    } catch (error) {
      if (caller?.aborted === true) void this.#abandon(run, begun);
      throw error;
    } finally {
      caller?.removeEventListener("abort", leave);
    }
  }

  async #named(run: BackgroundRun, input: FetchInput, init: FetchInit): Promise<Begun> {
    const response = await this.#send(input, init);
    if (!response.ok) return { response };
    const reader = readerOf(response);
    const head: { events: SseEvent[]; ended: Ended | undefined } = { events: [], ended: undefined };
    while (!run.isNamedBy(head.events) && head.ended === undefined) {
      const { events, ended } = this.#stepOf(await this.#connection.read(reader, undefined));
      head.events.push(...events);
      head.ended = ended;
    }
    return { response, reader, head };
  }

  /** The caller has gone before the run had a name. */
  async #abandon(run: BackgroundRun, begun: Promise<Begun>): Promise<void> {
    const cancelTimer = this.#time.after(NAME_MS, () => this.#connection.stop());
    const isRefused = await begun.then(
      ({ response }) => !response.ok,
      () => false,
    );
    cancelTimer();
    this.#connection.stop();
    if (!isRefused) await this.#resumed().cancel(run);
  }

  async #send(input: FetchInput, init: FetchInit): Promise<Response> {
    await this.#options.onRequest();
    this.#connection = new Connection(this.#clock);
    try {
      return await this.#connection.open(this.#options.fetch, input, init);
    } catch (error) {
      throw this.#unanswered(error, init?.signal ?? undefined);
    }
  }

  #resumed(): Resuming {
    const { fetch, onRequest, watch, backoffMs = BACKOFF_MS } = this.#options;
    let isSpent = false;
    return (this.#resuming ??= new Resuming({
      ask: async ({ url, method, headers }) => {
        isSpent = true;
        await onRequest();
        isSpent = false;
        this.#connection = new Connection(this.#clock);
        return this.#connection.open(fetch, url, { method, headers });
      },
      send: ({ url, method, headers }, signal) => fetch(url, { method, headers, signal }),
      isWanted: () => !isSpent && !this.#hasLeft && this.#nowMs < this.#deadlineMs,
      onAlive: () => (this.#progress = progress.heard(this.#progress, "ping", this.#nowMs)),
      onLeft: () => watch.onLeft?.(),
      backoffMs,
    }));
  }

  get #nowMs(): number {
    return this.#time.monotonic() - this.#pausedMs;
  }

  get #deadlineMs(): number {
    return progress.deadlineMs(this.#progress, this.#options.clocks, ENDING_MS);
  }

  /** There was no response at all. */
  #unanswered(error: unknown, caller: AbortSignal | undefined): unknown {
    if (caller?.aborted === true || error instanceof Redirected) return error;
    if (this.#connection.isStopped) return this.#break("stall");
    // The system's code says why; nothing was answered that could break.
    this.#options.watch.onBreak?.(this.#report("reset"));
    return error;
  }

  #report(why: progress.BreakCause): BreakReport {
    const { phase, tokens } = this.#progress;
    return { phase, why, tokens };
  }

  #break(why: progress.BreakCause, cause?: unknown): ProviderBreak {
    const report = this.#report(why);
    this.broken = new ProviderBreak(report, this.#nowMs - this.#progress.clock.contentMs, cause);
    this.#options.watch.onBreak?.(report);
    return this.broken;
  }

  #refusal(response: Response): Promise<Response> {
    if (isPassing(response.status)) this.#options.watch.onBreak?.(this.#report("error"));
    return this.#connection.refusal(response);
  }

  /** For an SDK. */
  #body(): ReadableStream<Uint8Array> {
    return new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          const { events, isLast } = await this.next();
          for (const { text, bytes = Buffer.from(text) } of events) controller.enqueue(bytes);
          if (isLast) controller.close();
        },
        cancel: () => this.#leave(undefined),
      },
      { highWaterMark: 0 },
    );
  }

  /** Resolves with events as soon as there are some. Throws when the caller has gone. */
  async next(): Promise<GivenEvents> {
    const source = this.#source;
    assert(source !== undefined, "an answer is read behind its request");
    this.#resume();
    while (!this.#hasLeft) {
      const { events, ended } =
        source.next ?? this.#stepOf(await this.#connection.read(source.reader, source.caller));
      source.next = undefined;
      const given: GivenEvent[] = [];
      const broken = this.#give(events, given);
      const end = ended ?? broken;
      if (end === undefined && given.length === 0) continue;
      if (end !== undefined && given.length === 0) {
        const more = await this.#continued(end);
        if (more === undefined) return { events: this.#end(end, source.reader), isLast: true };
        if ("events" in more) source.next = more;
        else source.reader = more;
        continue;
      }
      // What came before the end is not kept waiting for it.
      if (end !== undefined) source.next = { events: [], ended: end };
      this.#pausedAtMs = this.#time.monotonic();
      return { events: given, isLast: false };
    }
    source.caller?.throwIfAborted();
    return { events: [], isLast: true };
  }

  #resume(): void {
    if (this.#pausedAtMs !== undefined) this.#pausedMs += this.#time.monotonic() - this.#pausedAtMs;
    this.#pausedAtMs = undefined;
  }

  /** The whole events in it. */
  #stepOf(read: Read): Step {
    const splitter = (this.#splitter ??= new SseSplitter());
    if ("bytes" in read) {
      this.#progress = progress.heard(this.#progress, "bytes", this.#nowMs);
      try {
        return { events: splitter.push(read.bytes), ended: undefined };
      } catch (cause) {
        if (cause instanceof RangeError) return { events: [], ended: { end: "decode", cause } };
        throw cause;
      }
    }
    const rest = read.end === "eof" ? splitter.rest() : undefined;
    return { events: rest === undefined || rest.data === "" ? [] : [rest], ended: read };
  }

  /** Adds those for the reader. How the body ends, if it does. */
  #give(events: readonly SseEvent[], given: GivenEvent[]): Ended | undefined {
    const nowMs = this.#nowMs;
    this.#heard = undefined;
    for (const event of events) {
      if (event.data === "" && event.text.trim() === "") continue;
      const end = this.#pass(event, given, nowMs);
      if (end !== undefined) return end;
    }
    return this.#progress.isOver ? { end: "eof" } : undefined;
  }

  #pass(event: SseEvent, given: GivenEvent[], nowMs: number): Ended | undefined {
    const read = wireEventOf(this.#options.dialect, event.data);
    if (read === undefined) return { end: "decode" };
    const { meaning, value } = read;
    const { error } = meaning;
    // Nothing is missing: what went wrong behind the answer is not the client's affair.
    if (error !== undefined && progress.isWhole(this.#progress)) return undefined;
    // A run may live on behind an error of its stream.
    if (error !== undefined && meaning.isLast !== true && this.#resumption?.outlivesErrors === true)
      return { end: "error" };
    switch (this.#resumption?.take(event) ?? "next") {
      case "known":
        return undefined;
      case "contradiction":
        this.#resumption = undefined;
        return { end: "decode" };
      case "gap":
        return { end: "decode" };
      case "next":
    }
    if (error !== undefined && !this.#progress.hasError && isPassing(error.status))
      this.#options.watch.onBreak?.(this.#report("error"));
    // The same once more in the same moment changes nothing.
    if (meaning !== this.#heard) {
      this.#heard = meaning;
      this.#progress = progress.heardEvent(this.#progress, meaning, nowMs);
      if (meaning.isPing === true) this.#options.provider.pings = true;
      if (meaning.content !== undefined || meaning.isFinish === true) this.#heardContent();
    }
    const { text, bytes } = event;
    given.push({ text, bytes, value });
    return undefined;
  }

  #heardContent(): void {
    this.#resuming?.heardContent();
    if (this.#brokeMs === undefined) return;
    this.#options.watch.onResumed?.(this.#nowMs - this.#brokeMs);
    this.#brokeMs = undefined;
    this.#isResumed = true;
  }

  /** Where the same generation is read on; undefined when it is whole, or cannot be. */
  async #continued(ended: Ended): Promise<Reader | Step | undefined> {
    const { isOver, hasError } = this.#progress;
    if (this.#resumption === undefined || isOver || hasError || progress.isWhole(this.#progress))
      return undefined;
    const report = this.#report(ended.end);
    const brokeMs = this.#nowMs;
    // After a kill the answer is read again from its first byte on.
    this.#connection.stop(new LetGo("another connection reads on"));
    this.#progress = progress.heard(this.#progress, "resumed", brokeMs);
    const resumed = await this.#resumed().readOn(this.#resumption);
    if (typeof resumed === "string") return undefined;
    // Nothing is thrown away.
    this.#options.watch.onBreak?.({ ...report, tokens: {} });
    this.#brokeMs ??= brokeMs;
    if ("rest" in resumed) return { events: resumed.rest, ended: { end: "eof" } };
    this.#splitter = undefined;
    return readerOf(resumed.response);
  }

  /** The body ends here, whatever the connection does. Returns the events that stand in for those of the provider. */
  #end({ end, cause }: Ended, reader: Reader): readonly GivenEvent[] {
    const { isOver, hasError } = this.#progress;
    const isWhole = progress.isWhole(this.#progress);
    if (isWhole && end !== "eof") this.#options.watch.onBreak?.(this.#report(end));
    if (isWhole && this.#isResumed) this.#options.watch.onSaved?.();
    if (!isWhole && !hasError) this.#break(end, cause);
    if (isOver && isWhole) void this.#connection.drain(reader, ENDING_MS);
    else this.#leave(undefined);
    const lastWord = isWhole && !isOver ? lastWordOf(this.#options.dialect) : "";
    return lastWord === "" ? [] : [{ text: lastWord, value: undefined }];
  }

  /** Nothing more is wanted of the provider. */
  #leave(reason: unknown): void {
    if (this.#hasLeft) return;
    this.#hasLeft = true;
    this.#resuming?.leave();
    this.#connection.stop(reason);
    const isOver = this.#progress.isOver || progress.isWhole(this.#progress);
    const isLetGo = reason instanceof LetGo && this.#options.isHeld === true;
    if (this.#resumption !== undefined && !isOver && !isLetGo) void this.#resumed().cancel(this.#resumption);
  }
}
