/**
 * Compares what killed processes have seen and done with the server's logs as they are on the disk.
 *
 * The checks are the simulator's own, fed from a real database and real histories instead of a
 * simulated disk.
 */
import type { StreamName } from "../../src/core/stream-state.ts";
import type { SyncSealing } from "../../src/sealing/index.ts";
import { StreamLogs } from "../../src/server/stream-logs.ts";
import type { LogEntry } from "../../src/server/entries.ts";
import type { StreamStore } from "../../src/store/index.ts";
import { decodeSaying, decodeTurnEvent } from "../simulation/agent-messages.ts";
import { checkSameAsLog } from "../simulation/frame-checks.ts";
import { Ledger } from "../simulation/ledger.ts";
import { fail, LogChecks } from "../simulation/log-checks.ts";
import { digestOfEvents } from "../simulation/reading.ts";
import type { TrueStream } from "../simulation/truth.ts";
import type { Fact } from "./history.ts";

export interface Findings {
  readonly streams: number;
  readonly chunks: number;
  readonly events: number;
  readonly delivered: number;
  readonly effects: number;
  readonly unknown: number;
  readonly restarts: number;
}

export interface Evidence {
  readonly store: StreamStore;
  readonly sealing: SyncSealing;
  readonly homeKey: Uint8Array;
  readonly principal: string;
  readonly facts: readonly Fact[];
}

const nowhere = { trace: () => undefined, hit: () => undefined };

/** Throws at the first violation. */
export async function checkEvidence(evidence: Evidence): Promise<Findings> {
  const { facts } = evidence;
  const ledger = new Ledger(nowhere);
  feedLedger(ledger, facts);
  const checks = new LogChecks(nowhere, ledger);
  const streams = new Map<string, TrueStream>();
  for (const key of streamsOf(facts)) streams.set(key, await readStream(evidence, key));
  const promised = promisedOf(facts);
  for (const [key, stream] of streams) checkEvents(checks, stream, promised.has(key));
  feedEffects(ledger, facts, streams);
  for (const stream of streams.values()) {
    stream.chunks.forEach((entry, at) => checks.chunk(stream, at, entry));
  }
  checkDeliveries(facts, streams);
  checkAcks(facts, streams);
  checkEnds(facts, streams);
  return summary(facts, [...streams.values()]);
}

/** A3, B2: what had been acknowledged and shown by then is there, whatever else is. */
export async function checkSurvived(evidence: Evidence): Promise<Findings> {
  const { facts } = evidence;
  const told = facts.flatMap((fact) => (fact.kind === "event" || fact.kind === "acked" ? [fact.key] : []));
  const streams = new Map<string, TrueStream>();
  for (const key of new Set(told)) streams.set(key, await readStream(evidence, key));
  checkDeliveries(facts, streams);
  checkAcks(facts, streams);
  return summary(facts, [...streams.values()]);
}

function feedLedger(ledger: Ledger, facts: readonly Fact[]): void {
  for (const fact of facts) {
    if (fact.kind === "promised") ledger.promised(fact.tag, fact.index);
    else if (fact.kind === "abort_wanted") ledger.abortWanted(fact.key);
    else if (fact.kind === "bug") throw new Error(`a process met a bug: ${fact.what}`);
  }
}

/**
 * The streams of which anything was promised or told. One that was only opened, and whose client died before
 * its journal had been synced, may be nowhere (A5).
 */
function streamsOf(facts: readonly Fact[]): ReadonlySet<string> {
  const told = facts.flatMap((fact) => (fact.kind === "event" || fact.kind === "acked" ? [fact.key] : []));
  return new Set([...promisedOf(facts), ...told]);
}

/** Those whose client has them in its journal. */
function promisedOf(facts: readonly Fact[]): ReadonlySet<string> {
  const keyOf = new Map(
    facts.flatMap((fact) => (fact.kind === "opened" ? [[fact.tag, fact.key] as const] : [])),
  );
  const keys = facts.map((fact) => (fact.kind === "promised" ? keyOf.get(fact.tag) : undefined));
  return new Set(keys.filter((key) => key !== undefined));
}

async function readStream(evidence: Evidence, idempotencyKey: string): Promise<TrueStream> {
  const { store, sealing, homeKey, principal } = evidence;
  const name: StreamName = { principal, idempotencyKey };
  const found = await store.load(name);
  if (found.kind !== "live") fail("B2", `stream ${idempotencyKey} was told of and is ${found.kind}`);
  const sealer = sealing.sealer(sealing.deriveStreamKey(homeKey, idempotencyKey));
  const logs = new StreamLogs(store, name, sealer);
  const events: LogEntry[] = [];
  while (events.length < found.state.eventHead) {
    for (const { body, end } of await logs.readEvents(events.length + 1))
      events.push({ mark: end ?? "plain", body });
  }
  const chunks: LogEntry[] = [];
  while (chunks.length < found.state.nextSeqno) {
    for (const { body, isClose } of await logs.readChunks(chunks.length)) {
      chunks.push({ mark: isClose ? "close" : "plain", body });
    }
  }
  return { name, state: found.state, isGone: false, chunks, events, beganMs: 0, abortedAt: undefined };
}

/** The checks of a growing log must not know its end before they have seen it. */
function checkEvents(checks: LogChecks, stream: TrueStream, isPromised: boolean): void {
  const { state } = stream;
  // A client that died before its journal had the stream may have heard of it, and no other one ends it (A5).
  if (state.end === undefined && isPromised) fail("F1", `stream ${stream.name.idempotencyKey} has no end`);
  stream.state = { ...state, end: undefined };
  stream.events.forEach((entry, at) => checks.event(stream, at + 1, entry));
  stream.state = state;
}

/** C1: the ledger refuses a second effect, and an effect that the log's result denies. */
function feedEffects(ledger: Ledger, facts: readonly Fact[], streams: ReadonlyMap<string, TrueStream>): void {
  const logged = new Set<string>();
  for (const [key, { events }] of streams) {
    for (const { body } of events) {
      const event = body.length === 0 ? undefined : decodeTurnEvent(body);
      if (event?.kind === "exec") logged.add(`${key} ${event.execId}`);
    }
  }
  for (const fact of facts) {
    if (fact.kind !== "effect") continue;
    const { key, execId, repeatable } = fact;
    if (!logged.has(`${key} ${execId}`)) fail("B2", `exec ${execId} was run and never logged`);
    ledger.effect(key, execId, repeatable);
  }
}

/** B1, B3, B4: each life reads on without gap or repeat, and reads what the log has. */
function checkDeliveries(facts: readonly Fact[], streams: ReadonlyMap<string, TrueStream>): void {
  let cursors = new Map<string, number>();
  for (const fact of facts) {
    if (fact.kind === "life") {
      cursors = new Map();
    } else if (fact.kind === "reading") {
      const log = streams.get(fact.key);
      if (log !== undefined && digestOfEvents(log, fact.cursor) !== fact.digest) {
        fail("B3", `a snapshot at ${fact.cursor} does not cover what came before it`);
      }
      cursors.set(fact.key, fact.cursor);
    } else if (fact.kind === "event") {
      checkDelivery(fact, cursors, streams.get(fact.key));
    }
  }
}

function checkDelivery(
  fact: Extract<Fact, { kind: "event" }>,
  cursors: Map<string, number>,
  log: TrueStream | undefined,
): void {
  const { key, eventId, end } = fact;
  const cursor = cursors.get(key) ?? fail("B1", `an event of ${key} came before anybody read it`);
  if (eventId !== cursor + 1) fail("B1", `event ${eventId} came after ${cursor}`);
  if (log === undefined) fail("B2", `an event of ${key}, which is not there`);
  checkSameAsLog(log, eventId, Buffer.from(fact.body, "base64"));
  if ((end ?? "plain") !== log.events[eventId - 1]?.mark) fail("B6", "the end is not where the log has it");
  cursors.set(key, eventId);
}

/** A3: what was acknowledged is in the log. */
function checkAcks(facts: readonly Fact[], streams: ReadonlyMap<string, TrueStream>): void {
  for (const fact of facts) {
    if (fact.kind !== "acked") continue;
    const length = streams.get(fact.key)?.chunks.length ?? 0;
    if (length < fact.nextSeqno) {
      fail("A3", `${fact.key} has ${length} chunks, ${fact.nextSeqno} were acknowledged`);
    }
  }
}

/** B6, D3: what a client took for the end is the end, and an abort that was promised is on record. */
function checkEnds(facts: readonly Fact[], streams: ReadonlyMap<string, TrueStream>): void {
  for (const fact of facts) {
    if (fact.kind === "abort_promised") {
      const { aborted, end } = streams.get(fact.key)?.state ?? fail("D3", "an aborted stream is not there");
      if (!aborted && end === undefined)
        fail("D3", `the abort of ${fact.key} was promised and is not on record`);
    } else if (fact.kind === "over") {
      const end = streams.get(fact.key)?.state.end;
      if (end !== undefined && fact.outcome !== end) fail("B6", `a client took ${fact.outcome} for ${end}`);
    }
  }
}

function summary(facts: readonly Fact[], streams: readonly TrueStream[]): Findings {
  const count = (kind: Fact["kind"]): number => facts.filter((fact) => fact.kind === kind).length;
  const results = streams.flatMap(({ chunks }) =>
    chunks.filter(({ mark }) => mark === "plain").map(({ body }) => decodeSaying(body)),
  );
  return {
    streams: streams.length,
    chunks: streams.reduce((sum, { chunks }) => sum + chunks.length, 0),
    events: streams.reduce((sum, { events }) => sum + events.length, 0),
    delivered: count("event"),
    effects: count("effect"),
    unknown: results.filter((said) => said.kind === "result" && said.outcome === "unknown").length,
    restarts: count("life"),
  };
}
