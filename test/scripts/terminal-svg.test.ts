/**
 * What a program wrote to a terminal becomes a picture of it.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { terminalSvg } from "../../scripts/terminal-svg.ts";

const svg = terminalSvg({
  title: "a <title>",
  columns: 40,
  rows: 2,
  speed: 2,
  fromMs: 500,
  written: [
    { atMs: 0, text: "one \u001b[1m\u001b[31mred\u001b[39m\u001b[22m & plain\n" },
    { atMs: 1_000, text: "word " },
    { atMs: 1_050, text: "by word" },
    { atMs: 3_000, text: " late\n\nlast\n" },
  ],
});

test("text appears where and when it was written, in its colours, at the picture's speed, and at once if that was before it begins", () => {
  const texts = [
    ...svg.matchAll(
      /<text x="([\d.]+)" y="(\d+)" class="(t[^"]*)" style="animation-duration:([\d.]+)s">(.*)<\/text>/g,
    ),
  ];
  assert.deepEqual(
    texts.map(([, x, y, look, atS, text]) => [x, y, look?.trim(), atS, text]),
    [
      ["0.0", "14", "t", "0.00", "one "],
      ["33.6", "14", "t b r", "0.00", "red"],
      ["58.8", "14", "t", "0.00", " &amp; plain"],
      ["0.0", "33", "t", "0.25", "word by word"],
      ["100.8", "33", "t", "1.25", " late"],
      ["0.0", "71", "t", "1.25", "last"],
    ],
  );
});

test("the screen scrolls when a row is below it, and stays at the end", () => {
  assert.match(
    svg,
    /@keyframes s\{0%\{transform:none\}[\d.]+%\{transform:translateY\(-38px\)\}100%\{transform:translateY\(-38px\)\}\}/,
  );
  assert.ok(svg.includes("a &lt;title>"));
});

test("without its animation the picture is the end of the recording", () => {
  assert.match(svg, /@media \(prefers-reduced-motion:reduce\)\{\.t,\.s\{animation:none\}\}/);
  const still = svg.replaceAll(/@(?:keyframes|media) [^{]+\{(?:[^{}]*\{[^{}]*\})*\}/g, "");
  assert.doesNotMatch(still, /hidden|opacity/);
  assert.match(still, /<g class="s" transform="translate\(0,-38\)">/);
});
