/**
 * One connection to a provider: a request, its response, and the time until which each byte of it is waited for.
 *
 * Invariant: what is read through it ends at the deadline of its call, and with `stop`.
 */
import { LetGo } from "../../../protocol/let-go.ts";
import type { Fetch } from "../providers.ts";
import type { BreakCause } from "./answer-progress.ts";
import { type Reader, readerOf } from "./arriving-bytes.ts";
import type { Time } from "./time.ts";

export type FetchInput = Parameters<Fetch>[0];
export type FetchInit = Parameters<Fetch>[1];

/** How a body ended. */
export interface Ended {
  readonly end: BreakCause;
  readonly cause?: unknown;
}

export type Read = { readonly bytes: Uint8Array } | Ended;

/** A refusal is short, and soon there: what is beyond is left out. */
const REFUSAL_MS = 10_000;
const REFUSAL_BYTES_MAX = 256 * 1024;

/** A timer that fires so late says more about this process than about the provider: what has arrived meanwhile is read first. */
const LATE_MS = 50;
const CATCH_UP_MS = 1_000;

/** Made once, because nearly every call ends so. */
const WHOLE = new LetGo("the answer is whole");

/** Of the call: it stands still while its reader is busy. */
export interface CallClock extends Pick<Time, "after"> {
  nowMs(): number;
  deadlineMs(): number;
  /** The answer is whole: its request is let go, for there is nothing left to cancel, and it may have to be read again. */
  isWhole(): boolean;
}

export class Connection {
  readonly #clock: CallClock;
  readonly #stop = new AbortController();
  /** Until when the read under way is waited for; undefined while none is. */
  #dueMs: number | undefined;
  /** One for all reads. A token moves the deadline and leaves the timer alone, which looks again when it fires. */
  #cancelTimer: (() => void) | undefined;
  #firesMs = 0;
  #isLate = false;

  constructor(clock: CallClock) {
    this.#clock = clock;
  }

  get isStopped(): boolean {
    return this.#stop.signal.aborted;
  }

  stop(reason: unknown = this.#clock.isWhole() ? WHOLE : undefined): void {
    this.#cancelTimer?.();
    this.#stop.abort(reason);
  }

  async open(fetch: Fetch, input: FetchInput, init: FetchInit): Promise<Response> {
    const caller = init?.signal ?? undefined;
    // Not `AbortSignal.any`, which the platform watches for as long as either lives.
    caller?.addEventListener("abort", () => this.#stop.abort(caller.reason));
    if (caller?.aborted === true) this.#stop.abort(caller.reason);
    return this.#within(this.#clock.deadlineMs(), () => fetch(input, { ...init, signal: this.#stop.signal }));
  }

  async read(reader: Reader, caller: AbortSignal | undefined): Promise<Read> {
    this.#watch(this.#clock.deadlineMs());
    try {
      const { done, value } = await reader.read();
      if (!done) return { bytes: value };
      this.#cancelTimer?.();
      return { end: "eof" };
    } catch (cause) {
      this.#cancelTimer?.();
      // The caller has gone: how its request ends is no break.
      if (caller?.aborted === true) throw cause;
      return this.isStopped ? { end: "stall" } : { end: "reset", cause };
    } finally {
      this.#dueMs = undefined;
    }
  }

  #watch(deadlineMs: number): void {
    const nowMs = this.#clock.nowMs();
    this.#dueMs = Math.max(deadlineMs, nowMs);
    this.#isLate = false;
    if (this.#cancelTimer === undefined || this.#dueMs < this.#firesMs) this.#arm(this.#dueMs - nowMs);
  }

  #arm(delayMs: number): void {
    this.#cancelTimer?.();
    this.#firesMs = this.#clock.nowMs() + delayMs;
    this.#cancelTimer = this.#clock.after(delayMs, () => this.#fired());
  }

  #fired(): void {
    this.#cancelTimer = undefined;
    if (this.#dueMs === undefined) return;
    const lateMs = this.#clock.nowMs() - this.#dueMs;
    if (lateMs < 0) this.#arm(-lateMs);
    else if (lateMs <= LATE_MS || this.#isLate) this.stop();
    else {
      this.#isLate = true;
      this.#arm(CATCH_UP_MS);
    }
  }

  /** The provider said no: its words, as far as they come soon. */
  async refusal(response: Response): Promise<Response> {
    const { status, headers } = response;
    const reader = readerOf(response);
    const said: Uint8Array[] = [];
    const read = async (): Promise<void> => {
      for (let bytes = 0; bytes < REFUSAL_BYTES_MAX;) {
        const { done, value } = await reader.read();
        if (done) break;
        said.push(value);
        bytes += value.length;
      }
    };
    try {
      await this.#within(this.#clock.nowMs() + REFUSAL_MS, read);
    } catch {
      // The status says enough.
    }
    this.stop();
    return new Response(said.length === 0 ? null : Buffer.concat(said), { status, headers });
  }

  /** The answer is complete. Reads the rest of the body, so that the connection can be used again. */
  async drain(reader: Reader, waitMs: number): Promise<void> {
    const read = async (): Promise<void> => {
      while (!(await reader.read()).done);
    };
    try {
      await this.#within(this.#clock.nowMs() + waitMs, read);
    } catch {
      // The answer is whole; how its connection ends changes nothing.
    }
    this.stop();
  }

  /** Ends the connection at that time. */
  async #within<Result>(deadlineMs: number, wait: () => Promise<Result>): Promise<Result> {
    this.#watch(deadlineMs);
    try {
      return await wait();
    } finally {
      this.#dueMs = undefined;
      this.#cancelTimer?.();
      this.#cancelTimer = undefined;
    }
  }
}
