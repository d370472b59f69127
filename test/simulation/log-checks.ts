/**
 * Checks of what becomes durable: A1, A8, B6, C0, C1, D1, D3, D6.
 *
 * Everything here looks at the two logs and the state alone, as a later reader would.
 */
import type { StreamState } from "../../src/core/stream-state.ts";
import type { LogEntry } from "../../src/server/entries.ts";
import { decodeSaying, decodeTurnEvent } from "./agent-messages.ts";
import type { Ledger } from "./ledger.ts";
import { nameId, type TruthListener, type TrueStream } from "./truth.ts";
import type { World } from "./world/index.ts";

/** What a check tells: steps for the trace, conditions that were met. */
type Watched = Pick<World, "trace" | "hit">;

/** What has been seen of one stream's logs so far. */
interface Seen {
  /** Per tag the last index that is in the log. */
  readonly indexes: Map<string, number>;
  /** Which tag wrote under which writer. */
  readonly tagOfWriter: Map<number, string>;
  readonly results: Map<string, string>;
  readonly planned: Set<string>;
  readonly issued: Set<string>;
  /** How much each exec has said before its result. */
  readonly partials: Map<string, number>;
  readonly takenBack: Set<string>;
  isStepOpen: boolean;
  stepRestarts: number;
}

/** So many may be unacknowledged, and so many ids have one digit less: streams that are longer must be met. */
const CHUNKS_MANY = 256;
const EVENTS_MANY = 10_001;

export class LogChecks implements TruthListener {
  readonly #world: Watched;
  readonly #ledger: Ledger;
  readonly #seen = new Map<string, Seen>();

  constructor(world: Watched, ledger: Ledger) {
    this.#world = world;
    this.#ledger = ledger;
  }

  began(stream: TrueStream): void {
    this.#world.trace("truth", "stream begins", stream.name.idempotencyKey);
  }

  chunk(stream: TrueStream, seqno: number, entry: LogEntry): void {
    this.#world.trace("truth", "chunk durable", stream.name.idempotencyKey, seqno);
    if (seqno === CHUNKS_MANY) this.#world.hit("stream.chunks_above_256");
    const seen = this.#of(stream);
    if (entry.mark === "close") return;
    const said = decodeSaying(entry.body);
    if (this.#ledger.isEcho(stream.name.idempotencyKey)) return;
    if (said.kind === "result") {
      this.#result(stream, seen, said.execId, said.outcome);
      return;
    }
    if (said.kind === "other") return;
    if (said.kind === "partial") {
      this.#partial(seen, said.execId, said.index);
      return;
    }
    const last = seen.indexes.get(said.tag) ?? -1;
    if (said.index <= last) fail("A1", `${said.tag} said ${said.index} after ${last}`);
    for (let missing = last + 1; missing < said.index; missing++) {
      if (this.#ledger.isPromised(said.tag, missing))
        fail("A1", `${said.tag}/${missing} was journaled and is missing`);
    }
    seen.indexes.set(said.tag, said.index);
    this.#checkOwner(stream, seen, seqno, said.tag);
  }

  /** Each writer's part of the log holds one journal's words, and no journal writes in two parts (D1). */
  #checkOwner(stream: TrueStream, seen: Seen, seqno: number, tag: string): void {
    const { writers } = stream.state;
    const owner = writers.findLastIndex((writer) => writer.sinceSeqno <= seqno);
    const known = seen.tagOfWriter.get(owner);
    if (known !== undefined && known !== tag) fail("D1", `${tag} writes where ${known} does`);
    for (const [other, otherTag] of seen.tagOfWriter) {
      if (other !== owner && otherTag === tag) fail("D1", `${tag} writes after it was taken over`);
    }
    seen.tagOfWriter.set(owner, tag);
  }

  /** What a run says comes in order and before its result; a run of a repeatable tool may begin anew. */
  #partial(seen: Seen, execId: string, index: number): void {
    if (seen.results.has(execId)) fail("A8", `exec ${execId} said something after its result`);
    const next = seen.partials.get(execId) ?? 0;
    if (index !== next && index !== 0) fail("A1", `exec ${execId} said ${index} where ${next} was next`);
    seen.partials.set(execId, index + 1);
    this.#world.hit("sometimes.partial_reply");
  }

  #result(stream: TrueStream, seen: Seen, execId: string, outcome: string): void {
    const before = seen.results.get(execId);
    if (before !== undefined) fail("A8", `exec ${execId} has two results: ${before} and ${outcome}`);
    seen.results.set(execId, outcome);
    if (!seen.issued.has(execId)) fail("C0", `exec ${execId} was answered and never issued`);
    this.#ledger.checkOutcome(stream.name.idempotencyKey, execId, outcome);
    if (seen.takenBack.has(execId)) this.#world.hit(`sometimes.taken_back.${outcome}`);
    if (outcome === "unknown") this.#world.hit("sometimes.unknown_reported");
    if (outcome === "rejected") this.#world.hit("sometimes.approval_denied");
  }

  event(stream: TrueStream, eventId: number, entry: LogEntry): void {
    this.#world.trace("truth", "event durable", stream.name.idempotencyKey, eventId);
    if (eventId === EVENTS_MANY) this.#world.hit("stream.events_above_10000");
    if (stream.state.end !== undefined) fail("B6", "an event follows the end");
    const isEnd = entry.mark !== "plain";
    if (stream.abortedAt !== undefined && !isEnd) fail("D3", `event ${eventId} came after the abort`);
    if (entry.body.length === 0) return;
    const seen = this.#of(stream);
    const turn = decodeTurnEvent(entry.body);
    switch (turn.kind) {
      case "step_started":
        if (seen.isStepOpen) fail("C0", "a step began within a step");
        seen.isStepOpen = true;
        seen.stepRestarts = 0;
        break;
      case "step_restarted":
        if (!seen.isStepOpen) fail("C0", "a finished step was restarted");
        this.#world.hit("sometimes.step_restarted");
        if (++seen.stepRestarts > 3) fail("F1", "a step was restarted more than three times");
        seen.planned.clear();
        break;
      case "step_continued":
        if (!seen.isStepOpen) fail("C0", "a finished step was continued");
        this.#world.hit("sometimes.step_continued");
        seen.planned.clear();
        break;
      case "step_completed":
        seen.isStepOpen = false;
        break;
      case "exec_planned":
        for (const execId of turn.execIds) seen.planned.add(execId);
        break;
      case "exec":
        if (turn.isForged) {
          this.#world.hit("sometimes.exec_conflict");
          break;
        }
        if (seen.isStepOpen) fail("C0", `exec ${turn.execId} was issued before its step was complete`);
        // The write of an edit was planned with its read.
        if (!seen.planned.has(turn.execId.replace(/\.write$/, "")))
          fail("C0", `exec ${turn.execId} was rolled back and issued`);
        if (seen.issued.has(turn.execId)) fail("A8", `exec ${turn.execId} was issued twice`);
        seen.issued.add(turn.execId);
        break;
      case "exec_taken_back":
        if (seen.takenBack.has(turn.execId)) fail("A8", `exec ${turn.execId} was taken back twice`);
        seen.takenBack.add(turn.execId);
        break;
      case "text":
      case "other":
      case "turn_ended":
        break;
    }
  }

  changed(stream: TrueStream, before: StreamState): void {
    const { state } = stream;
    if (state.hostEpoch < before.hostEpoch) fail("D1", "a host epoch fell");
    if (before.aborted && !state.aborted) fail("D6", "an abort was taken back");
    if (before.end !== undefined && before.end !== state.end) fail("D6", "an end was taken back");
    if (state.eventFloor < before.eventFloor) fail("D6", "a floor fell");
    before.writers.forEach((writer, at) => {
      if (state.writers[at]?.journalId !== writer.journalId) fail("D1", "a writer was taken back");
    });
    if (state.aborted && !before.aborted) {
      this.#world.hit("sometimes.aborted");
      if (!this.#ledger.isAbortWanted(stream.name.idempotencyKey))
        fail("D3", "an abort that no client wanted");
    }
    if (state.end === "failed") this.#world.hit("sometimes.turn_failed");
    if (state.hostEpoch > 1 && state.hostEpoch > before.hostEpoch) this.#world.hit("sometimes.host_changed");
    if (state.writers.length > before.writers.length && before.writers.length > 0) this.#takeover(stream);
  }

  #takeover(stream: TrueStream): void {
    this.#world.hit("sometimes.takeover");
    const seen = this.#of(stream);
    for (const execId of seen.issued) {
      if (!seen.results.has(execId)) this.#world.hit("sometimes.takeover_with_open_exec");
    }
  }

  gone(stream: TrueStream): void {
    const { idempotencyKey } = stream.name;
    const isHeld = [...this.#ledger.writers].some((writer) => writer.holds(idempotencyKey));
    // By the store's clock the stream's time and its host's lease are over at once; another node may see that before the host renews.
    if (isHeld && !this.#ledger.haveLeasesEnded())
      fail("D7", "a stream expired while its writer was attached");
    this.#world.hit("sometimes.expired");
    this.#world.trace("truth", "stream gone", stream.name.idempotencyKey);
  }

  /** Issued execs without a durable result, for the last check. */
  openExecs(stream: TrueStream): readonly string[] {
    const seen = this.#of(stream);
    return [...seen.issued].filter((execId) => !seen.results.has(execId));
  }

  #of(stream: TrueStream): Seen {
    const id = nameId(stream.name);
    let seen = this.#seen.get(id);
    if (seen === undefined) {
      seen = {
        indexes: new Map(),
        tagOfWriter: new Map(),
        results: new Map(),
        partials: new Map(),
        takenBack: new Set(),
        planned: new Set(),
        issued: new Set(),
        isStepOpen: false,
        stepRestarts: 0,
      };
      this.#seen.set(id, seen);
    }
    return seen;
  }
}

/** Every broken invariant ends the run with its number first. */
export function fail(invariant: string, what: string): never {
  throw new Error(`${invariant}: ${what}`);
}
