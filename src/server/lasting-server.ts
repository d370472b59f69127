/**
 * A server that outlives its store: when the store fails, it is opened anew within the same process.
 *
 * Everything that stands on an open store is one thing, a *standing*, made by one function and thrown away as a whole.
 * So nothing is kept from memory by construction: the next standing is made as a start makes the first. What has a port
 * holds this object, which passes each call to the standing of the moment. While the store is down that is still the
 * last one: its store refuses every call, so new streams may run degraded and all others get `unavailable` (D5).
 *
 * When to open, and when to give up, is decided by `core/store-life.ts`. Invariant: a store is opened only after the one
 * before was closed (D1, F5).
 */
import * as storeLife from "../core/store-life.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { type Environment, SteadyClock, systemEnvironment } from "../transport/environment.ts";
import type { Accept } from "../transport/transport.ts";
import type { ServerCounters } from "./counters.ts";
import type { Server, StandingServer } from "./server.ts";
import type { StreamBlobs } from "./stream-blobs.ts";

/** A server, the store that it stands on, and whatever else does. */
export interface Standing {
  readonly server: StandingServer;
  /** Resolves when the store has failed for good. */
  readonly failed: Promise<Error>;
  /** Closes the store, and all that stands on it but the server. Behind it another one may open the store. */
  close(): Promise<void>;
}

export interface LastingOptions<S extends Standing> {
  /** Opens the store as a start does, and makes everything that stands on it. */
  readonly open: () => Promise<S>;
  readonly environment?: Environment;
  readonly life?: Partial<storeLife.Options>;
  readonly onNews: (news: StoreNews) => void;
}

/** What an operator should know. */
export type StoreNews =
  | { readonly kind: "failed"; readonly reason: Error }
  | { readonly kind: "back"; readonly downMs: number }
  /** It could not be opened; `failures` of such openings in a row. */
  | { readonly kind: "refused"; readonly reason: Error; readonly failures: number }
  /** The last opening in a row has failed: the process should end. */
  | { readonly kind: "given_up"; readonly reason: Error; readonly failures: number }
  /** What stood on the store that failed did not end in good order. */
  | { readonly kind: "unclean"; readonly reason: Error };

/** Soon enough after the first opening, and late enough that a crowd of clients does not retry for nothing. */
const RETRY_AFTER_MS = 5_000;

export class LastingServer<S extends Standing> implements Server {
  /** Resolves, with the reason, when the store could not be opened too often. */
  readonly givenUp: Promise<Error>;
  readonly #options: LastingOptions<S>;
  readonly #clock: SteadyClock;
  readonly #end = Promise.withResolvers<Error>();
  #life: storeLife.State;
  #standing: S;
  /** Earlier servers whose degraded streams still run. */
  #former: StandingServer[] = [];
  #closing: Promise<void> = Promise.resolve();
  #opening: Promise<void> = Promise.resolve();
  #cancelPause: () => void = () => undefined;
  /** What went wrong last. */
  #reason: Error = new HoldfastError("unavailable", "the store has failed");

  /** Rejects when the store cannot be opened at the start. */
  static async open<S extends Standing>(options: LastingOptions<S>): Promise<LastingServer<S>> {
    return new LastingServer(options, await options.open());
  }

  private constructor(options: LastingOptions<S>, first: S) {
    this.#options = options;
    this.#clock = new SteadyClock(options.environment ?? systemEnvironment());
    this.#life = storeLife.init({ ...storeLife.DEFAULTS, ...options.life }, this.#clock.now());
    this.#standing = first;
    this.givenUp = this.#end.promise;
    void this.#watch(first);
  }

  /** What stands on the store now; while the store is down, what stood on it last. */
  get standing(): S {
    return this.#standing;
  }

  /** The same, for what needs the store: throws while it is down. */
  get usable(): S {
    if (storeLife.isOpen(this.#life)) return this.#standing;
    throw this.#storeDown();
  }

  /** Asks what stands on the store. What is refused because the store is down says so, and when to ask again. */
  async ask<Answer>(what: (standing: S) => Promise<Answer>): Promise<Answer> {
    try {
      return await what(this.#standing);
    } catch (cause) {
      const isRefusal = HoldfastError.codeOf(cause) === "unavailable";
      throw isRefusal && !storeLife.isOpen(this.#life) ? this.#storeDown() : cause;
    }
  }

  /** Why a supervisor should act; undefined when it need not. */
  get illness(): string | undefined {
    const nowMs = this.#clock.now();
    if (!storeLife.isIll(this.#life, nowMs)) return undefined;
    return `the store has been down for ${Math.round((storeLife.downMs(this.#life, nowMs) ?? 0) / 1_000)} s`;
  }

  get accept(): Accept {
    return (meta, wire) => this.#standing.server.accept(meta, wire);
  }

  get blobs(): StreamBlobs | undefined {
    const { blobs } = this.#standing.server;
    if (blobs === undefined) return undefined;
    const now = (): StreamBlobs => this.#standing.server.blobs ?? blobs;
    return {
      check: (meta) => now().check(meta),
      put: (meta, id, bytes) => now().put(meta, id, bytes),
      get: (meta, id) => now().get(meta, id),
      forget: (meta) => now().forget(meta),
      sealerFor: (meta) => now().sealerFor(meta),
    };
  }

  get counters(): ServerCounters {
    return this.#standing.server.counters;
  }

  get hostedCount(): number {
    return this.#standing.server.hostedCount;
  }

  async probe(): Promise<void> {
    await this.usable.server.probe();
  }

  trim: Server["trim"] = (name, eventFloor) => this.#standing.server.trim(name, eventFloor);

  /** From here on the store is not opened any more. */
  async shutdown(): Promise<void> {
    this.#cancelPause();
    this.#put({ kind: "stop" });
    await Promise.all([this.#standing.server, ...this.#former].map((server) => server.shutdown()));
  }

  /** Behind `shutdown`: closes the store, also one that is just being opened. */
  async close(): Promise<void> {
    await this.#opening;
    await this.#closing;
    await this.#standing.close();
  }

  #put(input: storeLife.Input, opened?: S): void {
    const [next, effects] = storeLife.step(this.#life, input);
    this.#life = next;
    for (const effect of effects) this.#carryOut(effect, opened);
  }

  #carryOut(effect: storeLife.Effect, opened: S | undefined): void {
    const { onNews } = this.#options;
    switch (effect.kind) {
      case "take_down":
        this.#standing.server.loseStore();
        this.#closing = this.#ended(this.#standing.close());
        return;
      case "pause":
        this.#cancelPause = this.#clock.after(effect.pauseMs, () => this.#put({ kind: "due" }));
        return;
      case "open":
        this.#opening = this.#open();
        return;
      case "put_up":
        if (opened !== undefined) this.#putUp(opened);
        onNews({ kind: "back", downMs: effect.downMs });
        return;
      case "put_away":
        if (opened !== undefined) this.#closing = this.#ended(this.#putAway(opened));
        return;
      case "give_up":
        onNews({ kind: "given_up", reason: this.#reason, failures: storeLife.failures(this.#life) });
        this.#end.resolve(this.#reason);
        return;
    }
  }

  async #watch(standing: S): Promise<void> {
    this.#reason = await standing.failed;
    if (this.#life.kind !== "stopped") this.#options.onNews({ kind: "failed", reason: this.#reason });
    this.#put({ kind: "failed", nowMs: this.#clock.now() });
  }

  /** Never rejects: an opening that fails is an input. */
  async #open(): Promise<void> {
    await this.#closing;
    let opened: S;
    try {
      opened = await this.#options.open();
    } catch (cause) {
      this.#refused(cause);
      return;
    }
    this.#put({ kind: "opened", nowMs: this.#clock.now() }, opened);
  }

  #refused(cause: unknown): void {
    this.#reason = asError(cause);
    if (this.#life.kind === "stopped") return;
    const failures = storeLife.failures(this.#life) + 1;
    this.#options.onNews({ kind: "refused", reason: this.#reason, failures });
    this.#put({ kind: "refused" });
  }

  #putUp(opened: S): void {
    const { server } = this.#standing;
    this.#standing = opened;
    server.stepAside();
    this.#former = [server, ...this.#former].filter(({ connectionCount }) => connectionCount > 0);
    void this.#watch(opened);
  }

  async #putAway(opened: S): Promise<void> {
    await opened.server.shutdown();
    await opened.close();
  }

  async #ended(closed: Promise<void>): Promise<void> {
    try {
      await closed;
    } catch (cause) {
      this.#options.onNews({ kind: "unclean", reason: asError(cause) });
    }
  }

  #storeDown(): HoldfastError {
    return new HoldfastError(
      "unavailable",
      "the server's store is down and is being opened anew; try again in a moment: nothing that was acknowledged is lost",
      { retryAfterMs: RETRY_AFTER_MS, cause: this.#reason },
    );
  }
}

function asError(cause: unknown): Error {
  return cause instanceof Error ? cause : new Error(String(cause));
}
