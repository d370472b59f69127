import assert from "node:assert/strict";
import { test } from "node:test";
import { diffLines } from "../../src/tools/line-diff.ts";

/** The new text, made of the old one and the difference; fails where they do not fit. */
function patched(before: string, after: string): string {
  const old = before.split("\n");
  const made: string[] = [];
  let at = 0;
  for (const { kind, text } of diffLines(before, after)) {
    const { first } = /^@@ -(?<first>\d+),/.exec(text)?.groups ?? {};
    if (kind === "hunk") while (at < Number(first) - 1) made.push(old[at++] ?? "");
    if (kind === "context" || kind === "removed") assert.equal(old[at++], text);
    if (kind === "context" || kind === "added") made.push(text);
  }
  return [...made, ...old.slice(at)].join("\n");
}

test("a difference leads from the old text to the new one, whatever they are", () => {
  // Numbers that look thrown and are the same in each run.
  let last = 1;
  const below = (max: number): number => {
    last = (last * 48_271) % 2_147_483_647;
    return last % max;
  };
  for (let round = 0; round < 500; round++) {
    const before = Array.from({ length: below(40) }, () => `line ${below(8)}`);
    const after = [...before];
    for (let change = below(8); change > 0; change--) {
      after.splice(
        below(after.length + 1),
        below(3),
        ...Array.from({ length: below(3) }, () => `new ${below(4)}`),
      );
    }
    assert.equal(patched(before.join("\n"), after.join("\n")), after.join("\n"));
  }
});

test("a difference is short, and one of very many changes is still true", () => {
  assert.deepEqual(diffLines("a\nb\nc", "a\nb\nc"), []);
  assert.deepEqual(
    diffLines("a\nb\nc\na\nb\nb\na", "c\nb\na\nb\na\nc").filter(
      ({ kind }) => kind === "added" || kind === "removed",
    ).length,
    5,
  );
  const before = Array.from({ length: 20_000 }, (_, at) => `line ${at}`);
  const after = before.map((line, at) => (at % 3 === 0 ? `${line}!` : line));
  assert.equal(patched(before.join("\n"), after.join("\n")), after.join("\n"));
});
