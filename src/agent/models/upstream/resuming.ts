/**
 * Reads a generation on, over as many connections as it takes, and ends it at its provider when it is not wanted any more.
 *
 * The driver of a `Resumption`: a broken connection is followed by a request for the rest; when the provider no longer streams it, the run is looked
 * at until it is complete. Every such request counts as one of the step's (G2), and the clocks of the call bound them all. A cancel is sent in any case.
 *
 * Invariant: a run that was not read to its end is cancelled, or counted as one that could not be (G4).
 */
import { setTimeout as delay } from "node:timers/promises";
import { isPassing } from "./passing.ts";
import type { Looked, ResumeRequest, Resumption } from "./resumption.ts";

/** So often in a row, without content in between, a generation is asked for again. */
const STREAM_TRIES_MAX = 3;
const PAUSE_MS_MAX = 30_000;
const CANCEL_TRIES_MAX = 3;
const CANCEL_MS_MAX = 10_000;

interface ResumingOptions {
  /** Sends a request of the step, while the call is waited for. Rejects when it is not, or when there may be none. */
  readonly ask: (request: ResumeRequest) => Promise<Response>;
  /** Sends a request that is none of the step's. */
  readonly send: (request: ResumeRequest, signal: AbortSignal) => Promise<Response>;
  /** Whether the call is still waited for. */
  readonly isWanted: () => boolean;
  /** The provider has said that the run is not complete. */
  readonly onAlive: () => void;
  /** A run may have been left over. */
  readonly onLeft: () => void;
  /** The pause before the second try; doubled before each further one. */
  readonly backoffMs: number;
}

type Resumed = { readonly response: Response } | Exclude<Looked, "running"> | "lost";

export class Resuming {
  readonly #options: ResumingOptions;
  /** Ends pauses. */
  readonly #left = new AbortController();
  #tries = 0;
  #isCancelled = false;

  constructor(options: ResumingOptions) {
    this.#options = options;
  }

  /** Content has come: the next break is a first one. */
  heardContent(): void {
    this.#tries = 0;
  }

  /** The call is not waited for any more: its caller has gone. */
  leave(): void {
    this.#left.abort();
  }

  /** The rest of the generation; `lost` when it cannot be had. */
  async readOn(resumption: Resumption): Promise<Resumed> {
    while (resumption.stream !== undefined && this.#tries < STREAM_TRIES_MAX) {
      await this.#pause(this.#tries++, this.#left.signal);
      const response = await this.#asked(resumption.stream);
      if (response === "lost") return "lost";
      if (response?.ok === true) return { response };
      await response?.body?.cancel();
      if (response !== undefined && isFinal(response.status)) break;
    }
    return this.#lookAt(resumption);
  }

  /** A run that is not there just after its beginning may be there in a moment. */
  async #lookAt(resumption: Resumption): Promise<Resumed> {
    for (let looks = 0; resumption.look !== undefined; looks++) {
      await this.#pause(looks, this.#left.signal);
      const response = await this.#asked(resumption.look);
      if (response === "lost") return "lost";
      if (response === undefined) continue;
      if (!response.ok) {
        await response.body?.cancel();
        if (isFinal(response.status)) return "lost";
        continue;
      }
      const run = await jsonOf(response);
      const looked = run === undefined ? "running" : resumption.looked(run);
      if (looked !== "running") return looked;
      if (run !== undefined) this.#options.onAlive();
    }
    return "lost";
  }

  /** Undefined when there was no response; `lost` when there may be no further request. */
  async #asked(request: ResumeRequest): Promise<Response | "lost" | undefined> {
    if (!this.#options.isWanted()) return "lost";
    try {
      return await this.#options.ask(request);
    } catch {
      return this.#options.isWanted() ? undefined : "lost";
    }
  }

  async #pause(tries: number, signal?: AbortSignal): Promise<void> {
    if (tries === 0 || signal?.aborted === true) return;
    const pauseMs = Math.min(PAUSE_MS_MAX, this.#options.backoffMs * 2 ** (tries - 1));
    // Cut short when the caller goes; what follows sees that it has gone.
    await delay(pauseMs, undefined, signal === undefined ? {} : { signal }).catch(() => undefined);
  }

  /** Ends the run at the provider; once. */
  async cancel({ cancel }: Resumption): Promise<void> {
    if (this.#isCancelled) return;
    this.#isCancelled = true;
    if (cancel === undefined || !(await this.#isEnded(cancel))) this.#options.onLeft();
  }

  async #isEnded(request: ResumeRequest): Promise<boolean> {
    for (let tries = 0; tries < CANCEL_TRIES_MAX; tries++) {
      await this.#pause(tries);
      try {
        const response = await this.#options.send(request, AbortSignal.timeout(CANCEL_MS_MAX));
        await response.body?.cancel();
        // Refused: it is complete, or there is no such run.
        if (!isPassing(response.status)) return true;
      } catch {
        // Tried again, then counted.
      }
    }
    return false;
  }
}

/** No later request would be answered otherwise. A run that was not found may be in a moment. */
function isFinal(status: number): boolean {
  return status !== 404 && !isPassing(status);
}

/** Undefined when it broke off. */
async function jsonOf(response: Response): Promise<unknown> {
  try {
    return await response.json();
  } catch {
    return undefined;
  }
}
