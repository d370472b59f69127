/**
 * Keeps the streams that this node runs, and finds or makes the one a connection asks for.
 *
 * A wrong stream key, another principal's stream and no stream are one answer, given before anything
 * else happens, and only so often (D4, E1, E2). Two connections that ask for the same stream at the
 * same time wait for each other, so that it is claimed once. One that is to be made is made by the first commit of
 * whoever asked for it; the others wait for that.
 */
import { findStream, type Found } from "../core/attach.ts";
import * as budget from "../core/budget.ts";
import { isExpired } from "../core/retention.ts";
import { FIRST_HOST_EPOCH, newStreamState, type StreamName, type StreamState } from "../core/stream-state.ts";
import { HoldfastError } from "../protocol/errors.ts";
import type { AttachFrame } from "../protocol/frames.ts";
import { LIMITS, PROTOCOL_VERSION } from "../protocol/limits.ts";
import { putLast } from "../protocol/put-last.ts";
import type { BlobStore } from "../store/blob-store.ts";
import type { Absent, Gone, HostLease, Live } from "../store/stream-store.ts";
import type { AcceptedMeta } from "../transport/transport.ts";
import { type HostContext, HostedStream } from "./hosted.ts";
import { nameText } from "./entries.ts";
import { clearOrphans } from "./stream-blobs.ts";
import type { Birth } from "./stream-commits.ts";
import { present } from "./stream-logs.ts";

type FoundStream =
  | { readonly kind: "hosted"; readonly hosted: HostedStream; readonly resumed: boolean }
  | { readonly kind: "degraded" };

/** How often a stream may be asked for in vain: slow enough to make guessing pointless. */
const VAIN_ATTEMPTS: budget.Options = { burst: 10, refillMs: 5_000 };
const VAIN_STREAMS_MAX = 10_000;

/** What a request beside the stream is judged by: it goes where a reader might go on, and makes nothing. */
const GO_ON: AttachFrame = Object.freeze({
  kind: "attach",
  protocolVersion: PROTOCOL_VERSION,
  mode: "resume",
  role: "reader",
  eventId: 0,
  journalId: "",
  firstChunk: undefined,
  fresh: false,
  abort: false,
});

/** A stream that another node runs: it may well give it up soon. */
const HELD_RETRY_MS = 500;

export class Keeper {
  readonly #context: HostContext;
  readonly #lease: HostLease;
  readonly #hosted = new Map<string, HostedStream>();
  readonly #opening = new Map<string, Promise<unknown>>();
  readonly #vain = new Map<string, budget.State>();
  /** How many streams of each principal are being made. */
  readonly #making = new Map<string, number>();
  /** Streams in hand that do not count for their principal's limit. */
  readonly #uncounted = new Set<HostedStream>();
  readonly #blobs: BlobStore | undefined;
  #hasOrphans = true;
  #renewedMs = 0;
  #isStopped = false;
  #isStoreLost = false;

  constructor(context: HostContext, lease: HostLease, blobs?: BlobStore) {
    this.#context = context;
    this.#lease = lease;
    this.#blobs = blobs;
  }

  hostedStreams(): Iterable<HostedStream> {
    return this.#hosted.values();
  }

  get hostedCount(): number {
    return this.#hosted.size;
  }

  get(name: StreamName): HostedStream | undefined {
    return this.#hosted.get(nameText(name));
  }

  /** Rejects with the reason why not. */
  async find(meta: AcceptedMeta, attach: AttachFrame): Promise<FoundStream> {
    const id = nameText(meta);
    for (;;) {
      const hosted = this.#hosted.get(id);
      if (hosted !== undefined && !hosted.isDropped) {
        if (hosted.isUnborn) {
          await hosted.born;
          continue;
        }
        if (hosted.unconfirmedMs > this.#lease.leaseMs / 2) {
          // A host that slept may have lost the stream: it must not judge by what it remembers (D1).
          if (await this.#renew(hosted)) continue;
          throw new HoldfastError("unavailable", "this node may have lost the stream; reconnect");
        }
        const found = { kind: "live", state: hosted.durable } as const;
        this.#decide(meta, attach, found, 0);
        return { kind: "hosted", hosted, resumed: true };
      }
      const opening = this.#opening.get(id);
      if (opening === undefined) break;
      await opening;
    }
    const attempt = this.#open(meta, attach);
    // Whoever waits only wants to know when it is over, not how it ended.
    const over = attempt.then(
      () => undefined,
      () => undefined,
    );
    this.#opening.set(id, over);
    try {
      return await attempt;
    } finally {
      this.#opening.delete(id);
    }
  }

  /** Whether this principal with this stream key may touch this stream: rejects as an attach would. */
  async check(meta: AcceptedMeta): Promise<void> {
    // An application is at work while its stream is still being made.
    await this.#hosted.get(nameText(meta))?.born;
    this.#decide(meta, GO_ON, await this.#load(meta), 0);
  }

  /** Undefined when the store is down. */
  async #load(name: StreamName): Promise<Live | Gone | Absent | undefined> {
    try {
      return await this.#context.store.load(name);
    } catch {
      this.#context.counters.storeFailures++;
      return undefined;
    }
  }

  async #open(meta: AcceptedMeta, attach: AttachFrame): Promise<FoundStream> {
    const name = { principal: meta.principal, idempotencyKey: meta.idempotencyKey };
    for (;;) {
      const askedMs = this.#context.clock.now();
      const stored = await this.#load(name);
      if (stored?.kind === "absent") return this.#make(meta, attach, stored, askedMs);
      if (this.#decide(meta, attach, stored, 0) === "degrade") return { kind: "degraded" };
      const claimed = await this.#context.store.claim(name, this.#lease);
      if (claimed.kind === "held") {
        throw new HoldfastError("unavailable", "another node runs this stream", {
          retryAfterMs: HELD_RETRY_MS,
        });
      }
      if (claimed.kind === "live") return this.#host(meta, claimed.state, askedMs);
      // Somebody else expired or forgot it in between: look again.
    }
  }

  /** Those that are being made count as well: a hundred at the same time must not become two hundred (E8). */
  async #make(
    meta: AcceptedMeta,
    attach: AttachFrame,
    absent: Absent,
    askedMs: number,
  ): Promise<FoundStream> {
    if (meta.countsItself === true) {
      this.#decide(meta, attach, absent, 0);
      return this.#create(meta, askedMs);
    }
    const { principal } = meta;
    const others = this.#making.get(principal) ?? 0;
    this.#making.set(principal, others + 1);
    const over = (): void => {
      const left = (this.#making.get(principal) ?? 1) - 1;
      if (left === 0) this.#making.delete(principal);
      else this.#making.set(principal, left);
    };
    try {
      const open = await this.#countOpen(principal);
      const stored = open === undefined ? undefined : absent;
      const isDegraded = this.#decide(meta, attach, stored, others + (open ?? 0)) === "degrade";
      const found = isDegraded ? ({ kind: "degraded" } as const) : await this.#create(meta, askedMs);
      // The store counts it from then on.
      if (found.kind === "hosted") void found.hosted.born.then(over);
      else over();
      return found;
    } catch (cause) {
      over();
      throw cause;
    }
  }

  async #create(meta: AcceptedMeta, askedMs: number): Promise<FoundStream> {
    const keyCheck = this.#context.sealing.keyCheck(meta.streamKey);
    const state = newStreamState(keyCheck, askedMs, FIRST_HOST_EPOCH);
    return this.#host(meta, state, askedMs, { keyCheck, host: this.#lease });
  }

  /** The principal's open streams that count for its limit; undefined when the store is down. */
  async #countOpen(principal: string): Promise<number | undefined> {
    try {
      return (await this.#context.store.countOpen(principal)) - this.#uncountedOf(principal);
    } catch {
      this.#context.counters.storeFailures++;
      return undefined;
    }
  }

  /** Of those that the store counts. */
  #uncountedOf(principal: string): number {
    const uncounted = [...this.#uncounted].filter(
      ({ name, isUnborn, durable }) => name.principal === principal && !isUnborn && durable.end === undefined,
    );
    return uncounted.length;
  }

  #decide(
    meta: AcceptedMeta,
    attach: AttachFrame,
    stored: Live | Gone | Absent | undefined,
    openStreams: number,
  ): "create" | "go_on" | "degrade" {
    this.#checkVain(meta);
    const finding = findStream(attach, this.#compare(meta.streamKey, stored), openStreams);
    if (finding.kind !== "refuse") return finding.kind;
    if (finding.code === "not_found") this.#countVain(meta);
    throw new HoldfastError(finding.code, finding.message);
  }

  /** Compares a key in every case, so that the time taken tells nothing (E1). */
  #compare(streamKey: Uint8Array, stored: Live | Gone | Absent | undefined): Found {
    const { sealing } = this.#context;
    const presented = sealing.keyCheck(streamKey);
    const kept =
      stored?.kind === "live" ? stored.state.keyCheck : stored?.kind === "gone" ? stored.keyCheck : presented;
    const keyMatches = sealing.equal(presented, kept);
    if (stored === undefined) return { kind: "store_down" };
    return stored.kind === "absent" ? { kind: "absent" } : { kind: stored.kind, keyMatches };
  }

  #checkVain(meta: AcceptedMeta): void {
    const known = this.#vain.get(nameText(meta));
    if (known === undefined) return;
    const [, { waitMs }] = budget.spend(known, this.#context.clock.now());
    if (waitMs > 0)
      throw new HoldfastError("overloaded", "asked for in vain too often", { retryAfterMs: waitMs });
  }

  #countVain(meta: AcceptedMeta): void {
    const id = nameText(meta);
    const nowMs = this.#context.clock.now();
    const [next] = budget.spend(this.#vain.get(id) ?? budget.init(VAIN_ATTEMPTS, nowMs), nowMs);
    putLast(this.#vain, id, next, VAIN_STREAMS_MAX);
  }

  async #host(
    meta: AcceptedMeta,
    state: StreamState,
    claimedMs: number,
    birth?: Birth,
  ): Promise<FoundStream> {
    const name = { principal: meta.principal, idempotencyKey: meta.idempotencyKey };
    const macs = await this.#readMacs(name, state.nextSeqno);
    if (this.#isStoreLost) throw new HoldfastError("unavailable", "the store has just failed; reconnect");
    if (this.#isStopped) {
      this.#context.store.release(name, state.hostEpoch).catch(() => undefined);
      throw new HoldfastError("unavailable", "this server is shutting down; reconnect");
    }
    const id = nameText(name);
    const onDropped = (): void => {
      if (this.#hosted.get(id) !== hosted) return;
      this.#hosted.delete(id);
      this.#uncounted.delete(hosted);
    };
    const hosted = new HostedStream(
      this.#context,
      name,
      meta.streamKey,
      state,
      macs,
      claimedMs,
      onDropped,
      birth,
    );
    if (meta.countsItself === true) this.#uncounted.add(hosted);
    this.#hosted.set(id, hosted);
    return { kind: "hosted", hosted, resumed: birth === undefined };
  }

  async #readMacs(name: StreamName, nextSeqno: number): Promise<readonly Uint8Array[]> {
    const first = Math.max(0, nextSeqno - LIMITS.unackedChunksMax);
    const macs: Uint8Array[] = [];
    for (let seqno = first; seqno < nextSeqno; seqno = first + macs.length) {
      for (const batch of present(
        await this.#context.store.readChunks(name, seqno, LIMITS.unackedBytesMax),
      )) {
        macs.push(...batch.macs.slice(Math.max(0, first + macs.length - batch.first)));
      }
    }
    return macs.slice(0, nextSeqno - first);
  }

  /** Regular upkeep: heartbeats, leases, letting go of what nobody needs. */
  tick(): void {
    const nowMs = this.#context.clock.now();
    const isRenewalDue = nowMs - this.#renewedMs >= this.#lease.leaseMs / 3;
    if (isRenewalDue) this.#renewedMs = nowMs;
    for (const hosted of this.#hosted.values()) {
      hosted.tick();
      if (hosted.isIdle) this.#letGo(hosted);
      else if (isRenewalDue) void this.#renew(hosted);
    }
  }

  #letGo(hosted: HostedStream): void {
    hosted.drop("shutdown");
    // Not giving it back costs the next node a wait, nothing else.
    this.#context.store.release(hosted.name, hosted.durable.hostEpoch).catch(() => undefined);
  }

  /** Whether the store confirmed that this host runs the stream. */
  async #renew(hosted: HostedStream): Promise<boolean> {
    const askedMs = this.#context.clock.now();
    try {
      const isOurs = await this.#context.store.renew(
        hosted.name,
        hosted.durable.hostEpoch,
        this.#lease.leaseMs,
      );
      if (isOurs) hosted.confirmed(askedMs);
      else hosted.drop("moved");
      return isOurs;
    } catch {
      // The next commit finds out whether the store is gone for good.
      return false;
    }
  }

  /** Replaces streams by tombstones when their time is over (A7, D7). */
  async sweep(): Promise<void> {
    const { store, options } = this.#context;
    const { retentionMs, tombstoneMs } = options.retention;
    const nowMs = await store.now();
    for (const name of await store.listIdle(nowMs - retentionMs, SWEEP_COUNT_MAX)) {
      const hosted = this.get(name);
      const stored = await store.load(name);
      const hasWriter = hosted?.hasWriter ?? false;
      if (stored.kind !== "live" || !isExpired(options.retention, stored.state.activityMs, hasWriter, nowMs))
        continue;
      const expired = await store.expire(name, stored.state.activityMs);
      if (expired.kind !== "gone") continue;
      this.#context.counters.expired++;
      hosted?.drop("moved");
      await this.#blobs?.clear(nameText(name));
    }
    await store.forgetGone(nowMs - tombstoneMs);
    await store.tidy(nowMs - QUIET_MS);
    if (this.#blobs === undefined || !this.#hasOrphans) return;
    await clearOrphans(this.#blobs, async (name) => (await store.load(name)).kind === "live");
    this.#hasOrphans = false;
  }

  /** The store has failed: every stream stops at its durable head, whether or not it has something to commit (D5). */
  loseStore(): void {
    this.#isStoreLost = true;
    for (const hosted of this.#hosted.values()) hosted.drop("durability_lost");
  }

  async shutdown(): Promise<void> {
    this.#isStopped = true;
    const all = [...this.#hosted.values()];
    for (const hosted of all) hosted.drop("shutdown");
    const { store } = this.#context;
    await Promise.allSettled(all.map((hosted) => store.release(hosted.name, hosted.durable.hostEpoch)));
  }
}

/** Clients that come back for an ended stream do so soon; after that it is moved to its final place. */
const QUIET_MS = 60_000;
/** So many streams at most in one sweep; the next one goes on. */
const SWEEP_COUNT_MAX = 1_000;
