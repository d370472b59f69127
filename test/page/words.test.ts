/** What the page says of a change, of a stream and of what was taken back. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { lineDiff } from "../../src/page/line-diff.ts";
import { retractedText } from "../../src/page/retracted-text.ts";
import { statusOf, type Watched } from "../../src/page/status.ts";

const lines = fc.array(fc.constantFrom("a", "b", "c", ""), { maxLength: 12 }).map((all) => all.join("\n"));

test("a diff has both texts in it, and says nothing of lines that are the same", () => {
  fc.assert(
    fc.property(lines, lines, (before, after) => {
      const diff = lineDiff(before, after);
      const side = (left: "gone" | "new"): string =>
        diff
          .filter(({ kind }) => kind !== left)
          .map(({ text }) => text)
          .join("\n");
      assert.equal(side("new"), before);
      assert.equal(side("gone"), after);
      if (before === after) assert.ok(diff.every(({ kind }) => kind === "same"));
    }),
  );
  assert.deepEqual(
    lineDiff("one\ntwo\nthree", "one\n2\nthree").map(({ kind }) => kind),
    ["same", "gone", "new", "same"],
  );
  const long = Array.from({ length: 3_000 }, (_, at) => String(at)).join("\n");
  assert.equal(
    lineDiff(long, long.replace("\n1500\n", "\nx\n")).filter(({ kind }) => kind !== "same").length,
    2,
  );
});

test("what was taken back is what stood behind the place where the texts part", () => {
  assert.equal(retractedText("1 2 3", "1 2 3 4"), "");
  assert.equal(retractedText("1 2 3", "1 2"), " 3");
  assert.equal(retractedText("1 2 3", "1 x"), "2 3");
  assert.equal(retractedText("", ""), "");
  assert.equal(retractedText("1 😀", "1 😁"), "😀", "both begin with the same half of a character");
});

const CONNECTION = {
  state: "live",
  isReconnecting: false,
  stuck: undefined,
  failure: undefined,
  isSkipped: false,
  trouble: undefined,
  durability: undefined,
  headAtWelcome: undefined,
  unacknowledged: 0,
} as const;

test("the status line has one word for how things are, and a reason where there is one", () => {
  const idle: Watched = {
    isBusy: false,
    connection: undefined,
    role: undefined,
    error: undefined,
    isLoading: false,
    turns: [],
    approvals: [],
    questions: [],
  };
  const busy: Watched = { ...idle, isBusy: true, role: "writer", connection: CONNECTION };
  const said = (watched: Watched): string => {
    const { mark, word, detail } = statusOf(watched);
    return `${mark} ${word}${detail === "" ? "" : `, ${detail}`}`;
  };
  assert.equal(said(idle), "● ready");
  assert.equal(said({ ...idle, isLoading: true }), "◌ opening");
  assert.equal(said(busy), "● live");
  assert.equal(said({ ...busy, role: "reader" }), "● live, another tab writes");
  assert.equal(said({ ...busy, connection: { ...CONNECTION, state: "ended" } }), "● live");
  const failure = { code: "connection_lost", message: "the server is not there" } as const;
  const away = { ...CONNECTION, state: "reconnecting", isReconnecting: true, trouble: failure } as const;
  assert.equal(said({ ...busy, connection: away }), "◌ reconnecting, the server is not there");
  assert.equal(
    said({ ...busy, connection: { ...CONNECTION, state: "stalled", stuck: "the model" } }),
    "◍ stalled, the model",
  );
  assert.match(said({ ...busy, connection: { ...CONNECTION, state: "degraded" } }), /^◑ degraded, /);
  const error = new HoldfastError("unavailable", "no database");
  assert.equal(said({ ...busy, error }), "◍ trouble, no database");
  const turn = { id: "1", user: undefined, parts: [], usage: undefined, model: "" };
  const ended = (reason: "completed" | "aborted"): Watched => ({
    ...idle,
    turns: [{ ...turn, end: { reason, message: "" } }],
  });
  assert.equal(said(ended("completed")), "■ ended");
  assert.equal(said(ended("aborted")), "■ ended, stopped");
});
