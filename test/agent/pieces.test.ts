/** Pieces of an answer: joined while the disk is busy, never while it is free, and always the same text in the same order. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { Pieces } from "../../src/agent/pieces.ts";
import { PIECE_CHARS_MAX } from "../../src/agent/step-output.ts";
import type { Update } from "../../src/turn/messages.ts";

/** A log whose commits end when the test says so, all that wait at once. */
class SlowDisk {
  readonly said: Update[] = [];
  head = 0;
  #commit = Promise.withResolvers<void>();

  async update(update: Update): Promise<void> {
    this.said.push(update);
    this.head = this.said.length;
  }

  untilDurable(): Promise<void> {
    return this.#commit.promise;
  }

  async commit(): Promise<void> {
    const { resolve } = this.#commit;
    this.#commit = Promise.withResolvers<void>();
    resolve();
    await new Promise((next) => setImmediate(next));
  }
}

const text = (piece: string): Update => ({ case: "textDelta", value: { text: piece } });
const thought = (piece: string): Update => ({ case: "thinkingDelta", value: { text: piece } });
const args = (toolCallId: string, piece: string): Update => ({
  case: "partialToolCall",
  value: { toolCallId, tool: "shell", argsJsonDelta: piece },
});
const thoughtOver: Update = { case: "thinkingCompleted", value: { durationMs: 1 } };

test("while the disk is free each piece goes at once; those that come during a commit go as one behind it", async () => {
  const disk = new SlowDisk();
  const pieces = new Pieces(disk);
  await pieces.say(text("a"));
  await disk.commit();
  await pieces.say(text("b"));
  assert.deepEqual(disk.said, [text("a"), text("b")]);
  for (const piece of ["c", "d", "e"]) await pieces.say(text(piece));
  assert.equal(disk.said.length, 2);
  await disk.commit();
  assert.deepEqual(disk.said, [text("a"), text("b"), text("cde")]);
  await disk.commit();
  await pieces.say(text("f"));
  assert.deepEqual(disk.said.at(-1), text("f"));
});

test("what is no piece, or of another kind, or too long together, is not joined and not overtaken", async () => {
  const disk = new SlowDisk();
  const pieces = new Pieces(disk);
  const long = "x".repeat(PIECE_CHARS_MAX);
  const said = [
    thought("a"),
    thought("b"),
    thoughtOver,
    text("c"),
    text(long),
    args("1", "{"),
    args("2", "{"),
  ];
  for (const update of said) await pieces.say(update);
  await pieces.flush();
  assert.deepEqual(disk.said, said);
});

test("whatever comes, and whenever the disk is done, the text and its order stay", async () => {
  const update = fc.oneof(
    fc.string({ minLength: 1, maxLength: 3 }).map(text),
    fc.string({ minLength: 1, maxLength: 3 }).map(thought),
    fc
      .tuple(fc.constantFrom("1", "2"), fc.string({ minLength: 1, maxLength: 3 }))
      .map(([id, piece]) => args(id, piece)),
    fc.constant(thoughtOver),
  );
  const happening = fc.oneof(
    { weight: 4, arbitrary: update },
    { weight: 1, arbitrary: fc.constant("commit" as const) },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(happening, { maxLength: 40 }), async (happenings) => {
      const disk = new SlowDisk();
      const pieces = new Pieces(disk);
      for (const one of happenings) await (one === "commit" ? disk.commit() : pieces.say(one));
      await pieces.flush();
      const given = happenings.filter((one) => one !== "commit");
      assert.deepEqual(wholeOf(disk.said), wholeOf(given));
    }),
  );
});

/** Neighbours of a kind as one. */
function wholeOf(updates: readonly Update[]): readonly string[] {
  const whole: { kind: string; text: string }[] = [];
  for (const update of updates) {
    const id = update.case === "partialToolCall" ? (update.value.toolCallId ?? "") : "";
    const kind = `${update.case} ${id}`;
    const piece =
      update.case === "partialToolCall"
        ? (update.value.argsJsonDelta ?? "")
        : update.case === "textDelta" || update.case === "thinkingDelta"
          ? (update.value.text ?? "")
          : "|";
    const last = whole.at(-1);
    if (last?.kind === kind) last.text += piece;
    else whole.push({ kind, text: piece });
  }
  return whole.map((one) => `${one.kind}: ${one.text}`);
}
