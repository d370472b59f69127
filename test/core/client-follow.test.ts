/** The short way of an event through the client's machine: it must be the long way with fewer steps, and only where nothing else follows from the event. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { followed, step } from "../../src/core/client-stream.ts";
import {
  after,
  attached,
  client,
  event,
  heartbeat,
  lost,
  recorded,
  say,
  type State,
  stateAfter,
} from "./client.ts";
import { tick, welcome } from "./client.ts";

/** The same client with a standstill that no event ends: its events take the long way. */
function slowly(state: State): State {
  const request = { kind: "query", id: "4", askedMs: 0, sinceMs: 0 } as const;
  const still = { clock: "unanswered", stuck: "query 4", sinceMs: 0, isCurrent: true } as const;
  return { ...state, stall: { ...state.stall, unanswered: [request], standstills: [still] } };
}

/** What both have in common. */
function comparable({ stall, ...rest }: State): object {
  const { unanswered: _, standstills: __, owed: ___, ...clocks } = stall;
  return { ...rest, stall: clocks };
}

const reader = { role: "reader" } as const;
const clients: readonly (readonly [string, State])[] = [
  ["a writer", attached()],
  ["a writer that owes nothing", attached({ keepsJournal: false })],
  ["a writer whose chunk is not acknowledged", stateAfter(attached(), say, recorded(1))],
  ["a reader", attached(reader, { eventHead: 9 })],
  ["a client that has reconnected", stateAfter(attached(), lost(1, 5), tick(500), welcome({}, 2, 600))],
];

for (const [who, state] of clients) {
  test(`B1: the next event changes ${who} by the short way as it does by the long one`, () => {
    const input = event(1, undefined, state.connection, 700);
    assert.equal(followed(slowly(state), input), undefined);
    const [long, effects] = step(slowly(state), input);
    const short = followed(state, input);
    assert.ok(short !== undefined);
    // A standstill is something that the server asked and nobody has answered: then no answer is due.
    const due = { ...long, stall: { ...long.stall, movedMs: 700, progressMs: 700 } };
    assert.deepEqual(comparable(short), comparable(due));
    assert.deepEqual(step(state, input), [short, effects]);
    assert.equal(
      short.stall.owed,
      stateAfter(short, heartbeat(short.outbox.acked, 1, false, 700)).stall.owed,
    );
  });
}

test("B1: an event takes the short way only where nothing follows from it but its delivery", () => {
  const state = attached();
  const long = [event(2), event(0), event(1, "completed"), event(1, undefined, 7), heartbeat(0, 0), say];
  for (const input of long) assert.equal(followed(state, input), undefined, JSON.stringify(input));
  assert.equal(followed(client(), event(1)), undefined);
  assert.equal(followed(attached({ fresh: true }, { degraded: true }), event(1)), undefined);
  assert.deepEqual(after(state, event(1)), ["deliver 1"]);
  assert.deepEqual(after(state, event(1), event(3)), ["disconnect"]);
});
