/**
 * Sessions of tables that several nodes share: which of them runs where, and how one moves.
 *
 * A record names the process that generates its answer. Another process takes it over when that one is gone. A session that waits for tool results belongs to none: the process that gets them takes it. Either way the first
 * one to write the record over the version that it has read has the session (decision 133).
 *
 * Invariant: of all processes that would run a session, one writes its record; the others learn `fenced` by their next write.
 */
import { KeyedQueue } from "../async/keyed-queue.ts";
import { HoldfastError } from "../protocol/errors.ts";
import type { TableWrite } from "../store/table-store.ts";
import type { AnswerRef } from "./answer-ref.ts";
import { livesElsewhere, type Neighbours } from "./neighbours.ts";
import type { SessionDriver } from "./session-driver.ts";
import type { SessionRecord } from "./session-record.ts";
import type { SessionStore } from "./session-store.ts";

interface TakeoversParts {
  readonly neighbours: Neighbours;
  readonly store: SessionStore;
  /** The session of that stream, if it is here. */
  readonly find: (streamId: string) => SessionDriver | undefined;
  /** Runs a session here whose record this process has written. */
  readonly run: (record: SessionRecord, version: number) => Promise<SessionDriver>;
  /** Aborted when the gateway closes. */
  readonly closing: AbortSignal;
}

interface Wanted {
  /** The answer that is meant; undefined: the latest. */
  readonly fromEvent?: number | undefined;
  /** A retry asks, which can say again what its request brought. */
  readonly hasResults?: boolean;
}

/** The record of a session that waited, with its results' request, and what belongs to the same moment. */
interface Adopted {
  readonly record: SessionRecord;
  readonly writes: readonly TableWrite[];
}

export class Takeovers {
  readonly #parts: TakeoversParts;
  /** Of each stream, one after the other. */
  readonly #turns = new KeyedQueue();

  constructor(parts: TakeoversParts) {
    this.#parts = parts;
  }

  get self(): string {
    return this.#parts.neighbours.self;
  }

  /**
   * An answer that is under way, and whose owner is gone, is taken over; and by a retry with its results also one whose owner lives and does not have them. No process takes it from a
   * second one that has them, so it does not travel back and forth.
   */
  async takeUp(
    principal: string,
    streamId: string,
    { fromEvent, hasResults = false }: Wanted = {},
  ): Promise<void> {
    const { neighbours, store, find, closing } = this.#parts;
    const knows = (id: string): boolean => find(id) !== undefined;
    const waiting = (id: string): SessionDriver | undefined => {
      const session = find(id);
      return session?.state.at === "parked" || session?.state.at === "resting" ? session : undefined;
    };
    await this.#turns.run(streamId, async () => {
      while (!closing.aborted && (!knows(streamId) || waiting(streamId) !== undefined)) {
        const { row: record, version } = await store.look(principal, streamId);
        if (record?.state !== "generating") return;
        if (fromEvent !== undefined && fromEvent !== record.answer.fromEvent) return;
        // The node that took the results of one that waited here may have died before the stream had them: this node does not know that it moved.
        if (record.owner !== neighbours.self) waiting(streamId)?.letGo();
        if (knows(streamId)) return;
        const isWithout = hasResults && record.lacksResults === true;
        if (!isWithout && (await livesElsewhere(neighbours, record.owner))) return;
        const lacksResults = (record.answered.length > 0 && !hasResults) || undefined;
        if ((await this.#claimed({ ...record, lacksResults }, version)) !== undefined) return;
      }
    });
  }

  /** A session of a process that is gone, which no other one has taken meanwhile. */
  async takeOrphan(principal: string, { streamId, fromEvent }: AnswerRef): Promise<void> {
    const { neighbours, store, find } = this.#parts;
    await this.#turns.run(streamId, async () => {
      const { row: record, version } = await store.look(principal, streamId);
      const isMeant = record?.answer.fromEvent === fromEvent && record.state !== "finished";
      if (!isMeant || find(streamId) !== undefined || (await livesElsewhere(neighbours, record.owner)))
        return;
      await this.#claimed(record, version);
    });
  }

  /**
   * Tool results for a session that waits at another node, at none, or rests here. Resolves with the session, which owes its stream the results; with undefined when it is not what the request has
   * seen any more.
   */
  adopt(
    seen: SessionRecord,
    take: (found: SessionRecord) => Promise<Adopted>,
  ): Promise<SessionDriver | undefined> {
    const { principal, head, answer } = seen;
    return this.#turns.run(answer.streamId, async () => {
      const { store, find } = this.#parts;
      const { row: found, version } = await store.look(principal, answer.streamId);
      const here = find(answer.streamId);
      if (here !== undefined && here.state.at !== "resting") return undefined;
      if (found?.state !== "parked" || found.head !== head) {
        // What rests here is what another node has taken.
        here?.letGo();
        return undefined;
      }
      const { record, writes } = await take(found);
      return this.#claimed(record, version, writes);
    });
  }

  /** Removes the rows of a session that waits, at whichever node. False when it does not wait any more: then it is not touched. */
  async evict(principal: string, streamId: string): Promise<boolean> {
    const { store } = this.#parts;
    const { row, version } = await store.look(principal, streamId);
    if (row?.state !== "parked") return false;
    try {
      await store.remove(row, { withResponses: true, claim: { version } });
      return true;
    } catch (cause) {
      // Its results have come meanwhile.
      if (HoldfastError.codeOf(cause) === "fenced") return false;
      throw cause;
    }
  }

  /** Undefined when another node was first. */
  async #claimed(
    found: SessionRecord,
    version: number,
    writes?: readonly TableWrite[],
  ): Promise<SessionDriver | undefined> {
    const { store, run, find } = this.#parts;
    const [claim, record] = [{ version }, { ...found, owner: this.self }];
    let isFirst = true;
    try {
      await store.save(record, writes, { claim });
    } catch (cause) {
      if (HoldfastError.codeOf(cause) !== "fenced") throw cause;
      isFirst = false;
    }
    // Another node continues it, or the session that takes its place here.
    const rested = find(record.answer.streamId);
    if (rested?.state.at === "resting") rested.letGo();
    return isFirst ? run(record, claim.version) : undefined;
  }

  /** Another node that lives generates the answer. A session that waited here may not know yet that it has moved. */
  async isElsewhere(principal: string, { streamId, fromEvent }: AnswerRef): Promise<boolean> {
    const { neighbours, store } = this.#parts;
    const record = await store.byStream(principal, streamId);
    if (record?.state !== "generating" || record.answer.fromEvent !== fromEvent) return false;
    return livesElsewhere(neighbours, record.owner);
  }
}
