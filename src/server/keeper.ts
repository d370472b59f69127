/**
 * Keeps the streams that this node runs, and finds or makes the one a connection asks for.
 *
 * A wrong stream key, another principal's stream and no stream are one answer, given before anything
 * else happens, and only so often (D4, E1, E2). Two connections that ask for the same stream at the
 * same time wait for each other, so that it is claimed once. One that is to be made is made by the first commit of
 * the connection that asked for it; the others wait for that.
 */
import { isExpired } from "../core/retention.ts";
import { FIRST_HOST_EPOCH, newStreamState, type StreamName, type StreamState } from "../core/stream-state.ts";
import { HoldfastError } from "../protocol/errors.ts";
import type { AttachFrame } from "../protocol/frames.ts";
import { PROTOCOL_VERSION } from "../protocol/limits.ts";
import { PassingMap } from "../protocol/passing.ts";
import type { BlobStore } from "../store/blob-store.ts";
import type { Letter } from "../store/letters.ts";
import type { Absent, Gone, HostLease, Live } from "../store/stream-store.ts";
import type { AcceptedMeta } from "../transport/transport.ts";
import type { FollowedStream } from "./followed.ts";
import { createFollowing } from "./following.ts";
import type { HostContext } from "./host-context.ts";
import { HostedStream } from "./hosted.ts";
import { nameText } from "./entries.ts";
import type { Conversations } from "./conversations.ts";
import { clearOrphans } from "./stream-blobs.ts";
import type { Birth } from "./stream-commits.ts";
import { streamAccess } from "./stream-access.ts";
import { readMacs } from "./stream-logs.ts";

type FoundStream =
  | { readonly kind: "hosted"; readonly hosted: HostedStream; readonly resumed: boolean }
  /** Another node runs it. */
  | { readonly kind: "followed"; readonly followed: FollowedStream }
  | { readonly kind: "degraded" };

/** What a request beside the stream is judged by: it is let in where a reader could resume, and makes nothing. */
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

export type Keeper = ReturnType<typeof createKeeper>;

export function createKeeper(
  context: HostContext,
  lease: HostLease,
  blobs?: BlobStore,
  conversations?: Conversations,
) {
  const streams = new PassingMap<string, HostedStream>();
  const opening = new PassingMap<string, Promise<unknown>>();
  const decide = streamAccess(context);
  const { letters } = context;
  const following =
    letters && createFollowing({ context, letters, hostId: lease.hostId, decide, assertOpen, take });
  /** How many streams of each principal are being made. */
  const making = new Map<string, number>();
  /** Open streams that do not count for their principal's limit, by name, whether or not they are in hand. */
  const uncounted = new Map<string, StreamName>();
  let hasOrphans = true;
  let renewedMs = 0;
  let isStopped = false;
  let sweeping: Promise<void> | undefined;
  let isStoreLost = false;

  function get(name: StreamName): HostedStream | undefined {
    return streams.get(nameText(name));
  }

  /** Undefined when the store is down. One part of it may fail while another still answers from memory. */
  async function load(name: StreamName): Promise<Live | Gone | Absent | undefined> {
    if (isStoreLost) return undefined;
    try {
      return await context.store.load(name);
    } catch {
      context.counters.storeFailures++;
      return undefined;
    }
  }

  async function open(meta: AcceptedMeta, attach: AttachFrame): Promise<FoundStream> {
    const name = { principal: meta.principal, idempotencyKey: meta.idempotencyKey };
    for (;;) {
      const askedMs = context.clock.now();
      const stored = await load(name);
      // What a degraded stream costs would not be counted.
      if (stored === undefined && meta.payer !== undefined)
        throw new HoldfastError("unavailable", "the store is down; reconnect");
      if (stored?.kind === "absent") return make(meta, attach, stored, askedMs);
      if (decide(meta, attach, stored, 0).kind === "degrade") return { kind: "degraded" };
      const isRead = stored?.kind === "live" && following?.needsHost(meta, attach, stored.state) === false;
      const claimed = isRead ? ({ kind: "held" } as const) : await context.store.claim(name, lease);
      if (claimed.kind === "held") {
        if (following === undefined) {
          throw new HoldfastError("unavailable", "another node runs this stream", {
            retryAfterMs: HELD_RETRY_MS,
          });
        }
        const followed = await following.begin(meta, attach);
        if (followed !== undefined) return { kind: "followed", followed };
        continue;
      }
      if (claimed.kind === "live") return host(meta, claimed.state, askedMs);
      // Another node expired or forgot it in between: look again.
    }
  }

  function assertOpen(): void {
    if (isStoreLost) throw new HoldfastError("unavailable", "the store has just failed; reconnect");
    if (isStopped) throw new HoldfastError("unavailable", "this server is shutting down; reconnect");
  }

  /** A client of another node speaks to a stream. One that is not run here any more is given back, so that the other node need not wait. */
  function take(letter: Letter): boolean {
    const { name, number, hostEpoch } = letter;
    const id = nameText(name);
    const hosted = streams.get(id);
    if (opening.has(id) || hosted?.isUnborn === true) return false;
    if (hosted !== undefined && !hosted.isDropped) {
      try {
        if (hosted.letter(letter)) return true;
      } catch {
        // It does not open with this stream's key: no node that may speak to the stream wrote it.
        letters?.discard([number]).catch(() => undefined);
        return true;
      }
      hosted.drop("moved");
    }
    letters?.discard([number]).catch(() => undefined);
    context.store.release(name, hosted?.durable.hostEpoch ?? hostEpoch).catch(() => undefined);
    return true;
  }

  /** Those that are being made count as well: a hundred at the same time must not become two hundred (E8). */
  async function make(
    meta: AcceptedMeta,
    attach: AttachFrame,
    absent: Absent,
    askedMs: number,
  ): Promise<FoundStream> {
    if (meta.payer !== undefined) await context.admit?.(meta, meta.payer);
    if (meta.countsItself === true)
      return create(meta, attach, askedMs, decide(meta, attach, absent, 0).keyCheck);
    const { principal } = meta;
    const others = making.get(principal) ?? 0;
    making.set(principal, others + 1);
    const over = (): void => {
      const left = (making.get(principal) ?? 1) - 1;
      if (left === 0) making.delete(principal);
      else making.set(principal, left);
    };
    try {
      const counted = await countOpen(principal);
      const stored = counted === undefined ? undefined : absent;
      const { kind, keyCheck } = decide(meta, attach, stored, others + (counted ?? 0));
      const found =
        kind === "degrade" ? ({ kind: "degraded" } as const) : await create(meta, attach, askedMs, keyCheck);
      // The store counts it from then on.
      if (found.kind === "hosted") void found.hosted.born.then(over);
      else over();
      return found;
    } catch (cause) {
      over();
      throw cause;
    }
  }

  async function create(
    meta: AcceptedMeta,
    { fresh: isNew }: AttachFrame,
    askedMs: number,
    keyCheck: Uint8Array,
  ): Promise<FoundStream> {
    if (meta.conversation !== undefined) await conversations?.checkRoom(meta.principal);
    const conversationCheck = meta.conversation && context.sealing.keyCheck(meta.conversation.key);
    const state = newStreamState(keyCheck, askedMs, FIRST_HOST_EPOCH, conversationCheck);
    return host(meta, state, askedMs, { keyCheck, conversationCheck, host: lease, isNew });
  }

  /** The principal's open streams that count for its limit; undefined when the store is down. */
  async function countOpen(principal: string): Promise<number | undefined> {
    try {
      return (await context.store.countOpen(principal)) - (await uncountedOf(principal));
    } catch {
      context.counters.storeFailures++;
      return undefined;
    }
  }

  /** Of those that the store counts. */
  async function uncountedOf(principal: string): Promise<number> {
    let count = 0;
    for (const [id, name] of uncounted) {
      if (name.principal !== principal) continue;
      const hosted = streams.get(id);
      if (hosted?.isUnborn === true) continue;
      // One that rests may have ended elsewhere.
      const stored = hosted === undefined ? await context.store.load(name) : undefined;
      const state = stored?.kind === "live" ? stored.state : hosted?.durable;
      if (state !== undefined && state.end === undefined) count++;
      else if (!streams.has(id)) uncounted.delete(id);
    }
    return count;
  }

  async function host(
    meta: AcceptedMeta,
    state: StreamState,
    claimedMs: number,
    birth?: Birth,
  ): Promise<FoundStream> {
    const name = { principal: meta.principal, idempotencyKey: meta.idempotencyKey };
    const macs = await readMacs(context.store, name, 0, state.nextSeqno);
    if (isStopped && !isStoreLost) context.store.release(name, state.hostEpoch).catch(() => undefined);
    assertOpen();
    const id = nameText(name);
    const onDropped = (): void => {
      if (streams.get(id) !== hosted) return;
      streams.delete(id);
      uncounted.delete(id);
    };
    const hosted = new HostedStream(context, meta, state, macs, claimedMs, onDropped, birth);
    if (meta.countsItself === true) uncounted.set(id, name);
    streams.set(id, hosted);
    return { kind: "hosted", hosted, resumed: birth === undefined };
  }

  /** Connections that ask for this stream wait until the attempt is over, however it ends. */
  async function alone<Result>(id: string, attempt: Promise<Result>): Promise<Result> {
    opening.set(id, Promise.allSettled([attempt]));
    try {
      return await attempt;
    } finally {
      opening.delete(id);
    }
  }

  /** A stream ends by the node that runs it, like all that happens to it: what another node runs, that one judges (D1, D7). */
  async function expire(name: StreamName, activityMs: number): Promise<void> {
    const { store } = context;
    const claimed = await store.claim(name, lease);
    if (claimed.kind !== "live") return;
    const { state } = claimed;
    if (state.activityMs !== activityMs) return store.release(name, state.hostEpoch);
    const expired = await store.expire(name, state.hostEpoch);
    if (expired.kind !== "gone") return;
    context.counters.expired++;
    uncounted.delete(nameText(name));
    await blobs?.clear(nameText(name));
  }

  async function expireIfOver(name: StreamName, nowMs: number): Promise<void> {
    const stored = await context.store.load(name);
    if (stored.kind !== "live") return;
    const { activityMs } = stored.state;
    const id = nameText(name);
    const hosted = streams.get(id);
    const isWanted = opening.has(id) || hosted?.hasWriter === true;
    if (!isExpired(context.options.retention, activityMs, isWanted, nowMs)) return;
    hosted?.drop("moved");
    await alone(id, expire(name, activityMs));
  }

  async function sweep(): Promise<void> {
    const { store, options, counters } = context;
    const { retention } = options;
    const nowMs = await store.now();
    let names: readonly StreamName[];
    let before: number;
    do {
      before = counters.expired;
      names = await store.listIdle(nowMs - retention.retentionMs, SWEEP_COUNT_MAX);
      // Together, so that they share their commits.
      for (let at = 0; at < names.length; at += SWEEP_AT_ONCE) {
        await Promise.all(names.slice(at, at + SWEEP_AT_ONCE).map((name) => expireIfOver(name, nowMs)));
      }
    } while (names.length === SWEEP_COUNT_MAX && counters.expired > before);
    await store.forgetGone(nowMs - retention.tombstoneMs);
    await store.tidy(nowMs - QUIET_MS);
    await conversations?.sweep();
    if (blobs === undefined || !hasOrphans) return;
    await clearOrphans(blobs, async (name) => (await store.load(name)).kind === "live");
    hasOrphans = false;
  }

  function letGo(hosted: HostedStream): void {
    const [id, isOver] = [nameText(hosted.name), hosted.durable.end !== undefined];
    const isUncounted = uncounted.has(id) && !isOver;
    hosted.drop("shutdown");
    if (isUncounted) uncounted.set(id, hosted.name);
    // One that is over is read without a host; where no other node is, that would be a commit for nothing.
    if (isOver && letters === undefined) return;
    // Not giving it back costs the next node a wait, nothing else.
    context.store.release(hosted.name, hosted.durable.hostEpoch).catch(() => undefined);
  }

  /** Whether the store confirmed that this host runs the stream. */
  async function renew(hosted: HostedStream): Promise<boolean> {
    const askedMs = context.clock.now();
    try {
      const isOurs = await context.store.renew(hosted.name, hosted.durable.hostEpoch, lease.leaseMs);
      if (isOurs) hosted.confirmed(askedMs);
      else hosted.drop("moved");
      return isOurs;
    } catch {
      // The next commit finds out whether the store is gone for good.
      return false;
    }
  }

  return {
    /** Runs of this principal's streams end, and their model calls with them; for streams that are about to be forgotten. */
    dropAll(principal: string): void {
      for (const hosted of streams.values()) if (hosted.name.principal === principal) hosted.drop("moved");
    },
    get hostedCount(): number {
      return streams.size;
    },
    get,
    /** Rejects with the reason why not. */
    async find(meta: AcceptedMeta, attach: AttachFrame): Promise<FoundStream> {
      const id = nameText(meta);
      for (;;) {
        const hosted = streams.get(id);
        if (hosted !== undefined && !hosted.isDropped) {
          if (hosted.isUnborn) {
            await hosted.born;
            continue;
          }
          if (hosted.unconfirmedMs > lease.leaseMs / 2) {
            // A host that slept may have lost the stream: it must not judge by what it remembers (D1).
            if (await renew(hosted)) continue;
            throw new HoldfastError("unavailable", "this node may have lost the stream; reconnect");
          }
          decide(meta, attach, { kind: "live", state: hosted.durable }, 0);
          return { kind: "hosted", hosted, resumed: true };
        }
        const underWay = opening.get(id);
        if (underWay === undefined) {
          const followed = await following?.find(meta, attach);
          if (followed !== undefined) return { kind: "followed", followed };
          if (!opening.has(id) && !streams.has(id)) break;
        } else await underWay;
      }
      return alone(id, open(meta, attach));
    },
    /** Whether this principal with this stream key may touch this stream: rejects as an attach would. */
    async check(meta: AcceptedMeta): Promise<void> {
      // An application is at work while its stream is still being made.
      await get(meta)?.born;
      decide(meta, GO_ON, await load(meta), 0);
    },
    /** Regular upkeep: heartbeats, leases, letting go of what no client needs. */
    tick(): void {
      const nowMs = context.clock.now();
      const isRenewalDue = nowMs - renewedMs >= lease.leaseMs / 3;
      if (isRenewalDue) renewedMs = nowMs;
      for (const hosted of streams.values()) {
        hosted.tick();
        if (hosted.isIdle) letGo(hosted);
        // What is being made has its lease from its making; a store that looks streams up beside its queue would not find it.
        else if (isRenewalDue && !hosted.isUnborn) void renew(hosted);
      }
      following?.tick();
    },
    /** Replaces streams by tombstones when their time is over (A7, D7). One at a time: a call meanwhile waits for the one under way. */
    sweep: () => (sweeping ??= sweep().finally(() => (sweeping = undefined))),
    /** The store has failed: every stream stops at its durable head, whether or not it has something to commit (D5). */
    loseStore(): void {
      isStoreLost = true;
      following?.stop("durability_lost");
      for (const hosted of streams.values()) hosted.drop("durability_lost");
    },
    async shutdown(): Promise<void> {
      isStopped = true;
      following?.stop("shutdown");
      const all = [...streams.values()];
      for (const hosted of all) hosted.drop("shutdown");
      const { store } = context;
      await Promise.allSettled(all.map((hosted) => store.release(hosted.name, hosted.durable.hostEpoch)));
    },
  };
}

/** Clients that return to an ended stream do so soon; after that it is moved to its final place. */
const QUIET_MS = 60_000;
/** A sweep looks at so many streams, and at as many again while it finds some that are over. */
const SWEEP_COUNT_MAX = 1_000;
const SWEEP_AT_ONCE = 64;
