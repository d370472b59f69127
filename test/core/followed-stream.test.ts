/**
 * A stream that another node runs, as the node sees it whose clients are attached to it: what they are told was read from the store, what they say is posted.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  DEFAULTS,
  type Effect,
  init,
  type Input,
  type State,
  step,
  wantsHost,
} from "../../src/core/followed-stream.ts";
import { newStreamState, type StreamState } from "../../src/core/stream-state.ts";
import type { AttachFrame } from "../../src/protocol/frames.ts";
import { LIMITS, PROTOCOL_VERSION } from "../../src/protocol/limits.ts";
import { macOf, OPTIONS } from "./host.ts";
import { run } from "./run.ts";

const STREAM: StreamState = {
  ...newStreamState(Uint8Array.of(1), 0, 3),
  writers: [{ journalId: "laptop", sinceSeqno: 0, sinceEvent: 0 }],
  writerEpoch: 1,
  nextSeqno: 1,
  eventHead: 2,
};

function followed(stream: Partial<StreamState> = {}): State {
  const state = { ...STREAM, ...stream };
  const macs = Array.from({ length: state.nextSeqno }, (_, seqno) => macOf(seqno));
  return init(DEFAULTS, OPTIONS, "fsync", state, macs);
}

interface Attaching extends Partial<AttachFrame> {
  readonly canRun?: boolean;
  readonly firstMac?: Uint8Array;
  readonly draw?: number;
  readonly nowMs?: number;
}

function attach(
  connection: number,
  { canRun = true, firstMac, draw = 0, nowMs = 0, ...more }: Attaching = {},
): Input {
  const frame: AttachFrame = {
    kind: "attach",
    protocolVersion: PROTOCOL_VERSION,
    mode: "resume",
    role: "writer",
    eventId: 2,
    journalId: "laptop",
    fresh: false,
    abort: false,
    firstChunk: undefined,
    ...more,
  };
  return { kind: "attach", connection, frame, firstMac, canRun, draw, nowMs };
}
const read = (connection: number, more: Attaching = {}): Input =>
  attach(connection, { role: "reader", journalId: "reader", ...more });
const chunk = (
  connection: number,
  seqno: number,
  more: { content?: number; writerEpoch?: number } = {},
): Input => {
  const { content = seqno, writerEpoch = 1 } = more;
  return {
    kind: "chunk",
    connection,
    seqno,
    writerEpoch,
    mac: macOf(content),
    bytes: 1,
    isClose: false,
    nowMs: 0,
  };
};
const seen = (
  stream: Partial<StreamState>,
  more: { macs?: readonly number[]; isHeld?: boolean; nowMs?: number } = {},
): Input => {
  const { macs = [], isHeld = true, nowMs = 0 } = more;
  return { kind: "seen", stream: { ...STREAM, ...stream }, macs: macs.map(macOf), isHeld, nowMs };
};
const tick = (nowMs: number): Input => ({ kind: "tick", nowMs });

function word(effect: Effect): string {
  switch (effect.kind) {
    case "send": {
      const { frame } = effect;
      const shown =
        frame.kind === "error" ? frame.code : frame.kind === "ack" ? `ack ${frame.seqno}` : frame.kind;
      return `${effect.connection}: ${shown}`;
    }
    case "read":
      return `${effect.connection}: read ${effect.from}`;
    case "disconnect":
      return `${effect.connection}: disconnect`;
    case "post_attach":
      return effect.writerEpoch === 0 ? "knock" : `ask for epoch ${effect.writerEpoch}`;
    case "keep_chunk":
      return `keep ${effect.seqno}`;
    case "post_chunk":
      return `post ${effect.seqno}`;
    default:
      return effect.kind;
  }
}
/** What the last input brings about. */
function after(state: State, ...inputs: readonly Input[]): readonly string[] {
  const last = inputs.at(-1);
  assert.ok(last !== undefined);
  const [before] = run(step, state, inputs.slice(0, -1));
  return step(before, last)[1].map(word);
}

test("A3: a chunk is posted to the host, and acknowledged when the stream is seen to have it", () => {
  const said = [attach(1), chunk(1, 1)];
  assert.deepEqual(after(followed(), attach(1)), ["1: welcome", "knock"]);
  assert.deepEqual(after(followed(), ...said), ["keep 1", "post 1"]);
  assert.deepEqual(after(followed(), ...said, seen({})), []);
  assert.deepEqual(after(followed(), ...said, seen({ nextSeqno: 2 }, { macs: [1] })), ["1: ack 1"]);
  assert.deepEqual(after(followed(), ...said, seen({ nextSeqno: 2 }, { macs: [1] }), chunk(1, 1)), [
    "1: ack 1",
  ]);
});

test("A2: what the log has under a seqno decides: other content is refused, whoever said it first", () => {
  const said = [attach(1), chunk(1, 1)];
  assert.deepEqual(after(followed(), ...said, chunk(1, 1, { content: 9 })), [
    "1: seqno_conflict",
    "1: disconnect",
  ]);
  const other = seen({ nextSeqno: 2 }, { macs: [9] });
  assert.deepEqual(after(followed(), ...said, read(2), other), ["1: seqno_conflict", "1: disconnect"]);
  // Said to the host over another connection of the same writer, and come again here.
  assert.deepEqual(after(followed(), attach(1), seen({ nextSeqno: 3 }, { macs: [1, 2] }), chunk(1, 2)), [
    "1: ack 2",
  ]);
  assert.deepEqual(after(followed(), attach(1), chunk(1, 3)), ["1: seqno_gap", "1: disconnect"]);
});

test("B2: events are read when the stream is seen to have them; an older look changes nothing", () => {
  assert.deepEqual(after(followed(), read(1, { eventId: 0 })), ["1: welcome", "1: read 1", "knock"]);
  assert.deepEqual(after(followed(), read(1), seen({ eventHead: 5 })), ["1: read 3"]);
  assert.deepEqual(after(followed(), read(1), seen({ eventHead: 5 }), seen({ eventHead: 4 })), []);
  assert.deepEqual(after(followed(), read(1, { eventId: 3 })), ["1: event_ahead", "1: disconnect"]);
  const drained: Input = { kind: "sender", connection: 1, input: { kind: "drained" } };
  assert.deepEqual(after(followed(), read(1), drained), []);
});

test("B5: a reader of events that are gone by now is told so", () => {
  assert.deepEqual(after(followed(), read(1), seen({ eventHead: 9, eventFloor: 8 })), [
    "1: events_gone",
    "1: disconnect",
  ]);
});

test("D1: another writer is asked of the host, and welcome when its epoch is seen; who wrote before is fenced", () => {
  const asking = attach(2, { journalId: "phone", draw: 40 });
  assert.deepEqual(after(followed(), attach(1), asking), ["ask for epoch 43"]);
  const writers = [...STREAM.writers, { journalId: "phone", sinceSeqno: 1, sinceEvent: 2 }];
  const begun = seen({ writers, writerEpoch: 43 });
  assert.deepEqual(after(followed(), attach(1), asking, begun), ["1: fenced", "1: disconnect", "2: welcome"]);
  // What the one before said here and is not durable never happened.
  const said = [attach(1), chunk(1, 1), asking, begun, chunk(2, 1, { content: 7, writerEpoch: 43 })];
  assert.deepEqual(after(followed(), ...said), ["keep 1", "post 1"]);
  assert.deepEqual(after(followed(), attach(1), asking, begun, chunk(2, 1)), ["2: fenced", "2: disconnect"]);
});

test("D1: an epoch that was asked for and that another one has overtaken is asked for anew", () => {
  const asking = attach(1, { journalId: "phone", draw: 1 });
  assert.deepEqual(after(followed(), asking, seen({ writerEpoch: 900 })), [
    "1: unavailable",
    "1: disconnect",
  ]);
  assert.deepEqual(after(followed(), asking, tick(DEFAULTS.askMs - 1)), ["ask for epoch 4"]);
  const late = attach(1, { journalId: "phone", draw: 1, nowMs: 0 });
  const heard: Input = { kind: "heartbeat", connection: 1, nowMs: DEFAULTS.askMs };
  assert.deepEqual(after(followed(), late, heard, tick(DEFAULTS.askMs)), ["1: unavailable", "1: disconnect"]);
  assert.deepEqual(after(followed({ writerEpoch: 2 ** 32 - 2 }), asking), ["1: overloaded", "1: disconnect"]);
});

test("D3: an abort is posted once, told when it is seen, and posted again while it is not", () => {
  const abort: Input = { kind: "abort", connection: 1, nowMs: 0 };
  assert.deepEqual(after(followed(), read(1), abort), ["post_abort"]);
  assert.deepEqual(after(followed(), read(1), abort, abort), []);
  assert.deepEqual(after(followed(), read(1), abort, seen({ aborted: true })), ["1: heartbeat"]);
  assert.deepEqual(after(followed(), read(1), abort, tick(DEFAULTS.repostMs)), [
    "1: heartbeat",
    "post_abort",
  ]);
  assert.deepEqual(after(followed(), read(1), abort, seen({ aborted: true }), tick(DEFAULTS.repostMs)), [
    "1: heartbeat",
  ]);
  assert.deepEqual(after(followed(), read(1, { abort: true, canRun: false })), ["post_abort", "1: welcome"]);
  const gone = read(1, { abort: true, eventId: 0 });
  assert.deepEqual(after(followed({ eventFloor: 2 }), gone), [
    "post_abort",
    "1: unavailable",
    "1: disconnect",
  ]);
});

test("what the stream does not show is posted again after a while, and at once to a new host", () => {
  const said = [attach(1), chunk(1, 1), chunk(1, 2)];
  assert.deepEqual(after(followed(), ...said, tick(DEFAULTS.repostMs)), ["1: heartbeat", "post 1", "post 2"]);
  const moved = seen({ hostEpoch: 4, nextSeqno: 2 }, { macs: [1] });
  assert.deepEqual(after(followed(), ...said, moved), ["1: ack 1", "knock", "post 2"]);
});

test("G7: while nothing moves the host is asked again to look whether the turn runs, unless nobody wants it to", () => {
  const quiet = tick(DEFAULTS.askMs);
  const heard: Input = { kind: "heartbeat", connection: 1, nowMs: DEFAULTS.askMs };
  assert.deepEqual(after(followed(), read(1), heard, quiet), ["1: heartbeat", "knock"]);
  assert.deepEqual(after(followed(), read(1, { peek: true, canRun: false })), ["1: welcome"]);
  assert.deepEqual(after(followed(), read(1, { canRun: false }), heard, quiet), ["1: heartbeat"]);
  assert.deepEqual(after(followed({ end: "completed" }), read(1)), ["1: welcome"]);
});

test("D1: when the lease is over those who need a host are sent to find one; a stream that is only read is read on", () => {
  const free = seen({ eventHead: 3 }, { isHeld: false });
  assert.deepEqual(after(followed(), read(1), free), ["1: unavailable", "1: disconnect", "dropped"]);
  assert.deepEqual(after(followed(), read(1), free, read(2)), []);
  assert.deepEqual(after(followed(), read(1, { canRun: false }), free), ["1: read 3"]);
  assert.deepEqual(after(followed(), read(1), seen({ eventHead: 3, end: "completed" }, { isHeld: false })), [
    "1: read 3",
  ]);
  const closed: Input = { kind: "closed", connection: 1 };
  assert.deepEqual(after(followed(), read(1), closed, free), []);
  const asking = attach(2, { journalId: "phone" });
  const ended = seen({ end: "completed" }, { isHeld: false });
  assert.deepEqual(after(followed(), asking, ended), ["2: unavailable", "2: disconnect", "dropped"]);
  const [frame] = [attach(1)].flatMap((input) => (input.kind === "attach" ? [input.frame] : []));
  assert.ok(frame !== undefined);
  assert.equal(wantsHost({ ...frame, role: "reader" }, false), false);
  assert.equal(wantsHost({ ...frame, role: "reader", abort: true }, false), true);
});

test("a connection of the same writer takes the place of the one before; a first chunk comes with the attach", () => {
  assert.deepEqual(after(followed(), attach(1), attach(2)), ["1: disconnect", "2: welcome", "knock"]);
  const first = { firstChunk: Uint8Array.of(0), firstMac: macOf(0) };
  assert.deepEqual(after(followed(), attach(1, first)), ["1: welcome", "knock", "1: ack 0"]);
  assert.deepEqual(after(followed(), read(1), chunk(1, 1)), ["1: invalid_frame", "1: disconnect"]);
  assert.deepEqual(after(followed(), chunk(7, 1)), []);
  assert.deepEqual(after(followed({ end: "completed" }), attach(1), chunk(1, 1)), []);
  assert.deepEqual(after(followed(), attach(1), chunk(1, 1), chunk(1, 1)), []);
});

test("E8: sixteen readers are attached at one node, and the next is refused", () => {
  const readers = Array.from({ length: LIMITS.readersPerStreamMax }, (_, at) => read(at + 1));
  assert.deepEqual(after(followed(), ...readers, read(99)), ["99: overloaded", "99: disconnect"]);
});

test("a client that is refused, falls silent or is dropped with all others", () => {
  const refuse: Input = { kind: "refuse", connection: 1, code: "unavailable", message: "no log" };
  assert.deepEqual(after(followed(), read(1), refuse), ["1: unavailable", "1: disconnect"]);
  assert.deepEqual(after(followed(), read(1), tick(OPTIONS.clientSilenceMs + 1)), ["1: disconnect"]);
  const lost: Input = { kind: "drop", reason: "durability_lost" };
  const told = ["1: durability_lost", "1: unavailable", "1: disconnect", "dropped"];
  assert.deepEqual(after(followed(), read(1), lost), told);
});
