/**
 * The stream store as one would write it on a napkin: a map of plain streams, one operation at a time.
 *
 * Nothing of the real store is used here but the types, so the two cannot share a mistake. It has no
 * log, no groups and no restarts; that is the point.
 */
import type { StreamName, StreamState } from "../../src/core/stream-state.ts";
import type {
  Absent,
  Batch,
  ChunkBatch,
  Commit,
  Committed,
  Conflict,
  Creation,
  Gone,
  Held,
  HostLease,
  Live,
} from "../../src/store/index.ts";

interface Naive {
  readonly name: StreamName;
  live: boolean;
  state: StreamState;
  goneMs: number;
  hostId: string;
  leaseMs: number;
  untilMs: number;
  chunks: ChunkBatch[];
  events: Batch[];
}

export class NaiveStreamStore {
  nowMs = 0;
  #streams: Naive[] = [];

  load(name: StreamName): Live | Gone | Absent {
    const found = this.#find(name);
    if (found === undefined) return { kind: "absent" };
    return found.live ? { kind: "live", state: found.state } : gone(found);
  }

  create({ name, keyCheck, host, first }: Creation): Live | Gone | Committed | "refused" {
    const there = this.load(name);
    if (there.kind !== "absent") return there;
    const state: StreamState = {
      keyCheck,
      conversationCheck: undefined,
      createdMs: this.nowMs,
      activityMs: this.nowMs,
      hostEpoch: 1,
      writers: [],
      writerEpoch: 0,
      nextSeqno: 0,
      closed: false,
      eventHead: 0,
      eventFloor: 1,
      aborted: false,
      end: undefined,
    };
    const untilMs = this.nowMs + host.leaseMs;
    this.#streams.push({ name, live: true, state, goneMs: 0, ...host, untilMs, chunks: [], events: [] });
    if (first === undefined) return { kind: "committed", state };
    const grown = this.commit({ ...first, name, expected: { hostEpoch: 1, nextSeqno: 0, eventHead: 0 } });
    if (grown === "refused" || grown.kind === "conflict") {
      this.#streams.pop();
      return "refused";
    }
    return grown;
  }

  claim(name: StreamName, host: HostLease): Live | Gone | Absent | Held {
    const found = this.#find(name);
    if (found === undefined || !found.live) return this.load(name);
    const leaseLeftMs = found.untilMs - this.nowMs;
    if (found.hostId !== host.hostId && leaseLeftMs > 0) {
      return { kind: "held", hostId: found.hostId, leaseLeftMs };
    }
    found.state = { ...found.state, hostEpoch: found.state.hostEpoch + 1 };
    Object.assign(found, host, { untilMs: this.nowMs + host.leaseMs });
    return { kind: "live", state: found.state };
  }

  renew(name: StreamName, hostEpoch: number, leaseMs: number): boolean {
    const found = this.#find(name);
    if (found === undefined || !found.live || found.state.hostEpoch !== hostEpoch) return false;
    found.untilMs = Math.max(found.untilMs, this.nowMs + leaseMs);
    return true;
  }

  release(name: StreamName, hostEpoch: number): void {
    const found = this.#find(name);
    if (found === undefined || !found.live || found.state.hostEpoch !== hostEpoch) return;
    found.untilMs = 0;
    found.leaseMs = 0;
  }

  /** "refused" stands for a commit that is its caller's bug. */
  commit({ name, expected, chunks, events, change }: Commit): Committed | Conflict | "refused" {
    const found = this.#find(name);
    if (found === undefined || !found.live) return { kind: "conflict", state: undefined };
    const { state } = found;
    if (
      state.hostEpoch !== expected.hostEpoch ||
      state.nextSeqno !== expected.nextSeqno ||
      state.eventHead !== expected.eventHead
    ) {
      return { kind: "conflict", state };
    }
    const eventHead = state.eventHead + (events?.count ?? 0);
    const eventFloor = change.eventFloor ?? state.eventFloor;
    if (events !== undefined && state.end !== undefined) return "refused";
    if (events === undefined && change.end !== undefined) return "refused";
    if (chunks !== undefined && state.closed) return "refused";
    if (eventFloor < state.eventFloor || eventFloor > eventHead + 1) return "refused";
    found.state = {
      ...state,
      activityMs: Math.max(state.activityMs, this.nowMs),
      ...change.writer,
      nextSeqno: state.nextSeqno + (chunks?.count ?? 0),
      closed: state.closed || change.closed === true,
      eventHead,
      eventFloor,
      aborted: state.aborted || change.aborted === true,
      end: state.end ?? change.end,
    };
    found.untilMs = Math.max(found.untilMs, this.nowMs + found.leaseMs);
    if (chunks !== undefined) found.chunks.push(chunks);
    if (events !== undefined) found.events.push(events);
    return { kind: "committed", state: found.state };
  }

  readEvents(name: StreamName, from: number): readonly Batch[] {
    const found = this.#find(name);
    return found?.live === true ? found.events.filter(({ first, count }) => first + count > from) : [];
  }

  readChunks(name: StreamName): readonly ChunkBatch[] {
    const found = this.#find(name);
    return found?.live === true ? found.chunks : [];
  }

  countOpen(principal: string): number {
    const isOpen = ({ name, live, state }: Naive): boolean =>
      live && state.end === undefined && name.principal === principal;
    return this.#streams.filter(isOpen).length;
  }

  idleActivities(beforeMs: number): readonly number[] {
    return this.#streams
      .filter(({ live, state }) => live && state.activityMs < beforeMs)
      .map(({ state }) => state.activityMs)
      .toSorted((a, b) => a - b);
  }

  expire(name: StreamName, hostEpoch: number): Gone | Conflict {
    const found = this.#find(name);
    if (found === undefined) return { kind: "conflict", state: undefined };
    if (!found.live) return gone(found);
    if (found.state.hostEpoch !== hostEpoch) return { kind: "conflict", state: found.state };
    found.live = false;
    found.goneMs = this.nowMs;
    return gone(found);
  }

  forgetGone(beforeMs: number): number {
    const before = this.#streams.length;
    this.#streams = this.#streams.filter(({ live, goneMs }) => live || goneMs >= beforeMs);
    return before - this.#streams.length;
  }

  #find(name: StreamName): Naive | undefined {
    return this.#streams.find(
      (stream) =>
        stream.name.principal === name.principal && stream.name.idempotencyKey === name.idempotencyKey,
    );
  }
}

function gone({ state, goneMs }: Naive): Gone {
  return { kind: "gone", keyCheck: state.keyCheck, goneMs };
}
