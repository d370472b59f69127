/**
 * Streams in PostgreSQL: what the interface promises, as acts and questions.
 *
 * Writes go through the group writer, reads ask the tables. A stream's row is known by its id; when the row has vanished, the name is looked up once more, so that the
 * answer is about what is there now.
 */
import { randomInt } from "node:crypto";
import { applyCommit, newStreamState, FIRST_HOST_EPOCH, type StreamName } from "../../core/stream-state.ts";
import { assertContinues, assertLeaseMs, NO_COMMIT, shapeOf, UNBORN } from "../group.ts";
import type {
  Absent,
  Commit,
  Committed,
  Conflict,
  Creation,
  Gone,
  Held,
  HostLease,
  Live,
  ErasableStreams,
  StreamStore,
} from "../stream-store.ts";
import type { StreamPlace } from "./acts.ts";
import type { GroupWriter } from "./group-writer.ts";
import type { StreamQuestions } from "./stream-questions.ts";
import { assertName, assertText, type StoredStream } from "./stream-rows.ts";
import { StreamPlaces } from "./stream-places.ts";
import { nameKey } from "../stream-index.ts";
import {
  claimReadBack,
  claimVerdict,
  commitReadBack,
  commitVerdict,
  createReadBack,
  createVerdict,
  expireReadBack,
  expireVerdict,
  leaseReadBack,
  leaseVerdict,
  type Vanished,
} from "./verdicts.ts";

/** The streams of a store, and where those are that it has met. */
interface PostgresStreams {
  readonly streams: ErasableStreams;
  readonly placeOf: (name: StreamName) => StreamPlace | undefined;
}

interface StreamsParts {
  readonly writer: GroupWriter;
  readonly questions: StreamQuestions;
  readonly durability: StreamStore["durability"];
  readonly close: () => Promise<void>;
}

export function postgresStreams({ writer, questions, durability, close }: StreamsParts): PostgresStreams {
  async function stored(name: StreamName): Promise<StoredStream | Gone | undefined> {
    return (await questions.lookUp([name])).found.get(nameKey(name));
  }

  const places = new StreamPlaces(stored);

  /** Carries out an act on a stream's row, and again on the row that has its name now when the one that was known has vanished. */
  async function onRow<T>(
    name: StreamName,
    act: (place: StreamPlace) => Promise<T | Vanished>,
  ): Promise<T | Gone | Absent> {
    for (;;) {
      const found = await places.find(name);
      if (found.kind !== "live") return found;
      const result = await act(found.place);
      if (!isVanished(result)) return result;
      places.forget(name);
    }
  }

  function commitTo(place: StreamPlace, commit: Commit): Promise<Committed | Conflict> {
    const act = { kind: "commit", name: commit.name, place, commit } as const;
    return writer.submit({
      act,
      answer: (outcome) => commitVerdict(act, outcome),
      readBack: (back) => commitReadBack(act, back),
    });
  }

  async function load(name: StreamName): Promise<Live | Gone | Absent> {
    assertName(name);
    const found = await stored(name);
    if (found === undefined) return { kind: "absent" };
    if ("kind" in found) return found;
    places.learn(name, found);
    return { kind: "live", state: found.state };
  }

  const streams: ErasableStreams = {
    durability,
    now: () => questions.now(),
    load,
    async look(names) {
      for (const name of names) assertName(name);
      if (names.length === 0) return [];
      const { nowMs, found } = await questions.lookUp(names);
      return names.map((name) => {
        const stream = found.get(nameKey(name));
        if (stream === undefined) return { kind: "absent" };
        if ("kind" in stream) return stream;
        places.learn(name, stream);
        const { hostId, untilMs } = stream.lease;
        return { kind: "live", state: stream.state, hostId: untilMs > nowMs ? hostId : undefined };
      });
    },
    async create(creation: Creation): Promise<Live | Gone | Committed> {
      const { name, host, keyCheck, conversationCheck, first = NO_COMMIT } = creation;
      assertName(name);
      assertText(host.hostId, "a host id");
      assertLeaseMs(host.leaseMs);
      assertContinues({ ...first, expected: UNBORN });
      try {
        applyCommit(newStreamState(keyCheck, 0, FIRST_HOST_EPOCH, conversationCheck), shapeOf(first), 0);
      } catch (mistake) {
        // The caller's, and it must not spoil the group that it would share. It does not matter where the stream is there already.
        const there = await load(name);
        if (there.kind === "absent") throw mistake;
        return there;
      }
      const act = { kind: "create", name, creation, birth: randomInt(1, 2 ** 47) } as const;
      const { result, stored } = await writer.submit({
        act,
        answer: (outcome) => createVerdict(act, outcome),
        readBack: (back) => createReadBack(act, back),
      });
      if (stored !== undefined) places.learn(name, stored);
      return result;
    },
    async claim(name: StreamName, host: HostLease): Promise<Live | Gone | Absent | Held> {
      assertName(name);
      assertText(host.hostId, "a host id");
      assertLeaseMs(host.leaseMs);
      return onRow<Live | Held>(name, (place) => {
        const act = { kind: "claim", name, place, host } as const;
        return writer.submit({
          act,
          answer: (outcome) => claimVerdict(act, outcome),
          readBack: (back) => claimReadBack(act, back),
        });
      });
    },
    async renew(name, hostEpoch, leaseMs) {
      assertLeaseMs(leaseMs);
      const found = await places.find(name);
      if (found.kind !== "live") return false;
      const act = { kind: "renew", name, place: found.place, hostEpoch, leaseMs } as const;
      return writer.submit({
        act,
        answer: (outcome) => leaseVerdict(act, outcome),
        readBack: (back) => leaseReadBack(act, back),
      });
    },
    async release(name, hostEpoch) {
      const found = await places.find(name);
      if (found.kind !== "live") return;
      const act = { kind: "release", name, place: found.place, hostEpoch } as const;
      await writer.submit({
        act,
        answer: (outcome) => leaseVerdict(act, outcome),
        readBack: (back) => leaseReadBack(act, back),
      });
    },
    async commit(commit) {
      assertName(commit.name);
      assertContinues(commit);
      // Handed over within the call when the row is known: commits happen in the order in which they are asked for.
      const place = places.known(commit.name);
      if (place !== undefined) return commitTo(place, commit);
      const found = await places.find(commit.name);
      if (found.kind !== "live") return { kind: "conflict", state: undefined };
      return commitTo(found.place, commit);
    },
    readEvents: (name, from, bytesMax) => questions.page("events", name, from, bytesMax),
    readChunks: (name, from, bytesMax) => questions.page("chunks", name, from, bytesMax),
    countOpen: (principal) => questions.countOpen(principal),
    listIdle: (beforeMs, countMax) => questions.listIdle(beforeMs, countMax),
    async expire(name, hostEpoch) {
      const result = await onRow<Gone | Conflict>(name, (place) => {
        const act = { kind: "expire", name, place, hostEpoch } as const;
        return writer.submit({
          act,
          answer: (outcome) => expireVerdict(act, outcome),
          readBack: (back) => expireReadBack(act, back),
        });
      });
      if (result.kind === "gone") places.forget(name);
      return result.kind === "absent" ? { kind: "conflict", state: undefined } : result;
    },
    forgetGone: (beforeMs) => questions.forgetGone(beforeMs),
    namesOf: (principal) => questions.namesOf(principal),
    async forget(principal) {
      const names = await questions.namesOf(principal);
      await questions.forget(principal);
      for (const name of names) places.forget(name);
      return names.length;
    },
    tidy: () => questions.tidy(),
    close,
  };
  return { streams, placeOf: (name) => places.known(name) };
}

function isVanished(result: unknown): result is Vanished {
  return typeof result === "object" && result !== null && "kind" in result && result.kind === "vanished";
}
