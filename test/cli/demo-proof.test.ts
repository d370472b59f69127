/**
 * The proof of the demo can fail: each thing that could go wrong is put into sound evidence, and the check that is
 * there for it says so.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { newBoard } from "../../src/cli/demo/board.ts";
import type { Evidence } from "../../src/cli/demo/check.ts";
import { bodyOf } from "../../src/cli/demo/news.ts";
import { beginning, commandOf, ending } from "../../src/cli/demo/play.ts";
import { printProof } from "../../src/cli/demo/proof-table.ts";
import { prove } from "../../src/cli/demo/proof.ts";
import type { Life } from "../../src/cli/demo/story.ts";
import { ToolOutcome, TurnEndReason } from "../../src/protocol/messages.ts";
import {
  answer,
  chunksOf,
  completed,
  eventsOf,
  heardOf,
  QUICK,
  request,
  SLOW,
  soundEvidence,
  text,
  update,
} from "./demo-evidence.ts";

type Spoil = (sound: Evidence) => Partial<Evidence>;

/** The log with other messages, and clients that were shown exactly those. */
function withMessages(
  sound: Evidence,
  change: (messages: Evidence["events"][number]["message"][]) => void,
): Partial<Evidence> {
  const messages = sound.events.map(({ message }) => message);
  change(messages);
  const events = eventsOf(messages);
  const lives = sound.lives.map((life, at) => {
    const heard = heardOf(events, life.cursor);
    return { ...life, heard: at === 0 ? heard.slice(0, 8) : heard };
  });
  return { events, lives, heads: { ...sound.heads, eventHead: events.length } };
}

function withLife(sound: Evidence, at: number, change: (life: Life) => Partial<Life>): Partial<Evidence> {
  return { lives: sound.lives.map((life, index) => (index === at ? { ...life, ...change(life) } : life)) };
}

function withChunks(sound: Evidence, execIds: readonly string[]): Partial<Evidence> {
  const chunks = chunksOf([{ case: "runRequest", value: {} }, ...execIds.map(answer)]);
  return { chunks, heads: { ...sound.heads, nextSeqno: chunks.length } };
}

const SPOILED: readonly (readonly [what: string, failing: readonly string[], Spoil])[] = [
  [
    "an event is missing",
    ["events", "screen", "execs"],
    ({ events }) => ({ events: events.toSpliced(6, 1) }),
  ],
  [
    "the end of the log is missing",
    ["events", "screen", "end"],
    ({ events }) => ({ events: events.slice(0, -1) }),
  ],
  ["a chunk is missing", ["chunks", "execs"], ({ chunks }) => ({ chunks: chunks.toSpliced(2, 1) })],
  [
    "a client was not shown an event",
    ["screen"],
    (sound) => withLife(sound, 1, ({ heard }) => ({ heard: heard.toSpliced(3, 1) })),
  ],
  [
    "a client was shown an event twice",
    ["screen"],
    (sound) =>
      withLife(sound, 0, ({ heard }) => ({
        heard: heard.flatMap((one, at) => (at === 2 ? [one, one] : [one])),
      })),
  ],
  [
    "a client was shown another text",
    ["screen"],
    (sound) =>
      withLife(sound, 0, ({ heard }) => ({
        heard: heard.with(1, { eventId: 2, body: bodyOf(text("Won ")) }),
      })),
  ],
  [
    "a client was shown two texts as one",
    ["screen"],
    (sound) =>
      withLife(sound, 1, ({ heard }) => ({
        heard: heard.toSpliced(10, 1).with(10, { eventId: 16, body: bodyOf(text("ee four.")) }),
      })),
  ],
  [
    "a client went on too late",
    ["screen"],
    (sound) => withLife(sound, 1, ({ heard }) => ({ cursor: 9, heard: heard.slice(5) })),
  ],
  ["a word is missing on the screen", ["answer"], () => ({ shown: ["One two.", "four."] })],
  [
    "a word came twice",
    ["answer"],
    (sound) => withMessages(sound, (messages) => (messages[13] = text("Three "))),
  ],
  [
    "a finished step ran again",
    ["steps"],
    (sound) =>
      withMessages(sound, (messages) =>
        messages.splice(10, 0, update({ case: "stepCompleted", value: { step: 0 } })),
      ),
  ],
  [
    "a step began anew instead of continuing",
    ["steps"],
    (sound) =>
      withMessages(sound, (messages) => {
        const value = { step: 1, rollbackToEventId: "12", attempt: 1 };
        messages.splice(13, 2, update({ case: "stepRestarted", value }), text("Three "));
      }),
  ],
  [
    "a tool was asked for twice",
    ["execs"],
    (sound) => withMessages(sound, (messages) => messages.splice(8, 0, request("0.0.0", commandOf(QUICK)))),
  ],
  [
    "a tool was answered twice",
    ["execs"],
    (sound) => withChunks(sound, ["0.0.0", "0.0.0", "0.0.1", "0.0.2", "0.0.2.write"]),
  ],
  ["a tool was never answered", ["execs"], (sound) => withChunks(sound, ["0.0.0", "0.0.2", "0.0.2.write"])],
  [
    "a tool was asked for before its step was complete",
    ["order"],
    (sound) => withMessages(sound, (messages) => messages.splice(3, 2, ...messages.slice(3, 5).toReversed())),
  ],
  [
    "a tool ran in two clients",
    ["runs"],
    (sound) => withLife(sound, 1, () => ({ runs: sound.lives[0]?.runs.slice(0, 1) ?? [] })),
  ],
  ["an effect happened twice", ["effects"], ({ deeds }) => ({ deeds: [...deeds, beginning(QUICK)] })],
  [
    "an effect that is said to be done did not happen",
    ["effects"],
    ({ deeds }) => ({ deeds: deeds.toSpliced(1, 1) }),
  ],
  ["an unknown effect happened twice", ["effects"], ({ deeds }) => ({ deeds: [...deeds, beginning(SLOW)] })],
  [
    "a tool that was cut off is said to be done",
    ["unknown"],
    (sound) => ({
      ...withMessages(sound, (messages) => (messages[10] = completed(["0.0.1"], ToolOutcome.DONE))),
      deeds: [...sound.deeds, ending(SLOW)],
    }),
  ],
  [
    "a tool that was not cut off is said to be unknown",
    ["unknown"],
    (sound) => withMessages(sound, (messages) => (messages[8] = completed(["0.0.0"], ToolOutcome.UNKNOWN))),
  ],
  ["the edit is missing", ["edit"], () => ({ letter: "Dear reader, this is a draft.\n" })],
  [
    "the turn ended twice",
    ["end"],
    (sound) =>
      withMessages(sound, (messages) =>
        messages.splice(-1, 0, update({ case: "turnEnded", value: { reason: TurnEndReason.COMPLETED } })),
      ),
  ],
  [
    "the turn failed",
    ["end"],
    (sound) =>
      withMessages(sound, (messages) =>
        messages.splice(-1, 1, update({ case: "turnEnded", value: { reason: TurnEndReason.FAILED } })),
      ),
  ],
];

test("the proof holds for sound evidence", () => {
  const checks = prove(soundEvidence());
  assert.deepEqual(
    checks.flatMap(({ problems }) => problems),
    [],
  );
});

for (const [what, failing, spoil] of SPOILED) {
  test(`the proof fails when ${what}`, () => {
    const sound = soundEvidence();
    const checks = prove({ ...sound, ...spoil(sound) });
    assert.deepEqual(
      checks.filter(({ problems }) => problems.length > 0).map(({ name }) => name),
      failing,
    );
  });
}

test("a check that fails is shown with what was expected and found", () => {
  const sound = soundEvidence();
  let shown = "";
  const board = newBoard({ stdout: { write: (text) => (shown += text) }, env: {}, now: () => 0 });
  const checks = prove({ ...sound, deeds: [...sound.deeds, beginning(QUICK)] });
  printProof(checks, { server: 1, client: 1, network: 1 }, board);
  assert.match(
    shown,
    /^FAILED +effects +quick \(done\): found 2 beginnings and 1 endings in the file, expected one of each$/m,
  );
  assert.match(shown, /^The proof FAILED: 1 check of 12\.$/m);
});
