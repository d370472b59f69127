/**
 * One call of a model at its provider: the `fetch` below the SDK.
 *
 * The SDKs read a body to its end and know nothing of its fate. So their `fetch` is ours: it passes whole events only, notes the finish marker,
 * and ends the body in good order when the connection dies, or stays quiet, behind it. What breaks before is noted in `broken` and the body
 * ends. What the SDK makes of such a body does not count: its reader looks at `broken` first.
 *
 * The clocks stand still while the reader above is busy: a provider is not blamed for our own disk.
 *
 * Invariant: when the call is over, or the reader has gone, nothing of it runs at the provider (G4).
 */
import { LetGo } from "../../../protocol/let-go.ts";
import type { Dialect } from "../dialect.ts";
import type { Fetch } from "../providers.ts";
import * as progress from "./answer-progress.ts";
import { type BreakReport, ProviderBreak } from "./provider-break.ts";
import { Redirected } from "./redirects.ts";
import { SseSplitter } from "./sse-events.ts";
import type { StallClocks } from "./stall-clocks.ts";
import { lastWordOf, meaningOf } from "./wire-events.ts";

/** How long a provider may take for what follows its finish marker: the usage, the end of the body. */
const ENDING_MS = 2_000;

/** A refusal is short, and soon there: what is beyond is left out. */
const REFUSAL_MS = 10_000;
const REFUSAL_BYTES_MAX = 256 * 1024;

/** A timer that fires so late says more about this process than about the provider: what has arrived meanwhile is read first. */
const LATE_MS = 50;
const CATCH_UP_MS = 1_000;

/** Statuses that say "later", as opposed to "not so". */
const PASSING: ReadonlySet<number> = new Set([0, 408, 409, 429]);

export interface UpstreamOptions {
  readonly dialect: Dialect;
  readonly fetch: Fetch;
  readonly clocks: StallClocks;
  /** What is known of the provider; learned here. */
  readonly provider: { pings: boolean };
  /** Before each request, which leaves when this resolves. */
  readonly onRequest: () => Promise<void>;
  readonly onBreak: (report: BreakReport) => void;
}

type Read = { readonly bytes: Uint8Array } | { readonly end: progress.BreakCause; readonly cause?: unknown };

type Reader = ReadableStreamDefaultReader<Uint8Array>;
type Controller = ReadableStreamDefaultController<Uint8Array>;

const encoder = new TextEncoder();

export class UpstreamCall {
  /** Why there is no answer, or no whole one. */
  broken: ProviderBreak | undefined;
  readonly #options: UpstreamOptions;
  #progress: progress.State;
  #splitter = new SseSplitter();
  #stop = new AbortController();
  /** How long our own reader was busy with what it had. */
  #pausedMs = 0;
  #pausedAtMs: number | undefined;

  constructor(options: UpstreamOptions) {
    this.#options = options;
    this.#progress = progress.init(this.#nowMs, options.provider.pings);
  }

  /** For the SDK; one that continues an answer by another request calls it again. */
  readonly fetch: Fetch = async (input, init) => {
    await this.#options.onRequest();
    this.#splitter = new SseSplitter();
    this.#stop = new AbortController();
    this.#progress = progress.init(this.#nowMs, this.#options.provider.pings);
    const caller = init?.signal ?? undefined;
    const signals = caller === undefined ? [this.#stop.signal] : [caller, this.#stop.signal];
    const waiting = this.#waitUntil(this.#deadlineMs);
    let response: Response;
    try {
      response = await this.#options.fetch(input, { ...init, signal: AbortSignal.any(signals) });
    } catch (error) {
      throw this.#unanswered(error, caller);
    } finally {
      clearTimeout(waiting.timer);
    }
    if (!response.ok) return this.#refusal(response);
    return new Response(this.#body(response, caller), { status: 200, headers: response.headers });
  };

  get #nowMs(): number {
    return performance.now() - this.#pausedMs;
  }

  get #deadlineMs(): number {
    return progress.deadlineMs(this.#progress, this.#options.clocks, ENDING_MS);
  }

  /** Ends the request at that time. */
  #waitUntil(deadlineMs: number): { timer: NodeJS.Timeout } {
    const dueMs = Math.max(deadlineMs, this.#nowMs);
    const giveUp = (): void => {
      const isLate = this.#nowMs - dueMs > LATE_MS;
      if (isLate) waiting.timer = setTimeout(() => this.#leave(), CATCH_UP_MS);
      else this.#leave();
    };
    const waiting = { timer: setTimeout(giveUp, dueMs - this.#nowMs) };
    return waiting;
  }

  /** Ends the request. One whose answer is whole is let go: there is nothing left to cancel, and it may have to be read again. */
  #leave(): void {
    this.#stop.abort(progress.isWhole(this.#progress) ? new LetGo("the answer is whole") : undefined);
  }

  /** There was no response at all. */
  #unanswered(error: unknown, caller: AbortSignal | undefined): unknown {
    if (caller?.aborted === true || error instanceof Redirected) return error;
    if (this.#stop.signal.aborted) return this.#break("stall");
    // The system's code says why; nothing was answered that could break.
    this.#options.onBreak(this.#report("reset"));
    return error;
  }

  #report(why: progress.BreakCause): BreakReport {
    const { phase, tokens } = this.#progress;
    return { phase, why, tokens };
  }

  #break(why: progress.BreakCause, cause?: unknown): ProviderBreak {
    const report = this.#report(why);
    this.broken = new ProviderBreak(report, this.#nowMs - this.#progress.clock.contentMs, cause);
    this.#options.onBreak(report);
    return this.broken;
  }

  /** The provider said no: its words, as far as they come soon. */
  async #refusal(response: Response): Promise<Response> {
    const { status, headers } = response;
    if (isPassing(status)) this.#options.onBreak(this.#report("error"));
    const waiting = this.#waitUntil(this.#nowMs + REFUSAL_MS);
    const reader = readerOf(response);
    const said: Uint8Array[] = [];
    try {
      for (let bytes = 0; bytes < REFUSAL_BYTES_MAX;) {
        const { done, value } = await reader.read();
        if (done) break;
        said.push(value);
        bytes += value.length;
      }
    } catch {
      // The status says enough.
    } finally {
      clearTimeout(waiting.timer);
      this.#leave();
    }
    return new Response(said.length === 0 ? null : Buffer.concat(said), { status, headers });
  }

  #body(response: Response, caller: AbortSignal | undefined): ReadableStream<Uint8Array> {
    const reader = readerOf(response);
    this.#pausedAtMs = performance.now();
    return new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          this.#resume();
          for (let isGiven = false; !isGiven;) {
            const read = await this.#read(reader, caller);
            isGiven =
              "bytes" in read ? this.#take(read.bytes, controller, reader) : this.#end(read, controller);
          }
          this.#pausedAtMs = performance.now();
        },
        cancel: () => this.#leave(),
      },
      { highWaterMark: 0 },
    );
  }

  #resume(): void {
    if (this.#pausedAtMs !== undefined) this.#pausedMs += performance.now() - this.#pausedAtMs;
    this.#pausedAtMs = undefined;
  }

  async #read(reader: Reader, caller: AbortSignal | undefined): Promise<Read> {
    const waiting = this.#waitUntil(this.#deadlineMs);
    try {
      const { done, value } = await reader.read();
      return done ? { end: "eof" } : { bytes: value };
    } catch (cause) {
      // The caller has gone: how its request ends is no break.
      if (caller?.aborted === true) throw cause;
      return this.#stop.signal.aborted ? { end: "stall" } : { end: "reset", cause };
    } finally {
      clearTimeout(waiting.timer);
    }
  }

  /** True when the SDK has something to read, or the body has ended. */
  #take(bytes: Uint8Array, controller: Controller, reader: Reader): boolean {
    this.#progress = progress.heardBytes(this.#progress, this.#nowMs);
    let isGiven = false;
    try {
      for (const event of this.#splitter.push(bytes)) {
        if (!this.#pass(event, controller)) return this.#end({ end: "decode" }, controller);
        isGiven = true;
      }
    } catch (cause) {
      if (cause instanceof RangeError) return this.#end({ end: "decode", cause }, controller);
      throw cause;
    }
    if (!this.#progress.isOver) return isGiven;
    if (!progress.isWhole(this.#progress)) return this.#end({ end: "eof" }, controller);
    controller.close();
    void this.#drain(reader);
    return true;
  }

  /** False when it cannot be read. */
  #pass({ data, text }: { readonly data: string; readonly text: string }, controller: Controller): boolean {
    if (text.trim() === "") return true;
    const meaning = meaningOf(this.#options.dialect, data);
    if (meaning === undefined) return false;
    const { error } = meaning;
    // Nothing is missing: what went wrong behind the answer is not the client's affair.
    if (error !== undefined && progress.isWhole(this.#progress)) return true;
    if (error !== undefined && !this.#progress.hasError && isPassing(error.status))
      this.#options.onBreak(this.#report("error"));
    this.#progress = progress.heardEvent(this.#progress, meaning, this.#nowMs);
    if (meaning.isPing === true) this.#options.provider.pings = true;
    controller.enqueue(encoder.encode(text));
    return true;
  }

  /** The body ends here, whatever the connection does. */
  #end({ end, cause }: Extract<Read, { readonly end: unknown }>, controller: Controller): boolean {
    const rest = end === "eof" ? this.#splitter.rest() : undefined;
    if (rest !== undefined && rest.data !== "") this.#pass(rest, controller);
    const { isOver, hasError } = this.#progress;
    if (progress.isWhole(this.#progress)) {
      if (end !== "eof") this.#options.onBreak(this.#report(end));
      const lastWord = isOver ? "" : lastWordOf(this.#options.dialect);
      if (lastWord !== "") controller.enqueue(encoder.encode(lastWord));
    } else if (!hasError) this.#break(end, cause);
    controller.close();
    this.#leave();
    return true;
  }

  /** All is said: what is left is read, so that the connection can be used again. */
  async #drain(reader: Reader): Promise<void> {
    const waiting = this.#waitUntil(this.#nowMs + ENDING_MS);
    try {
      while (!(await reader.read()).done);
    } catch {
      // The answer is whole; how its connection ends changes nothing.
    } finally {
      clearTimeout(waiting.timer);
      this.#leave();
    }
  }
}

function readerOf({ body }: Response): Reader {
  const bytes: ReadableStream<Uint8Array> =
    body ?? new ReadableStream({ start: (controller) => controller.close() });
  return bytes.getReader();
}

function isPassing(status: number): boolean {
  return PASSING.has(status) || status >= 500;
}
