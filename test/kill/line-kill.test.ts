/** G6 with real processes: `holdfast serve`, its line, and SIGKILL in the middle of an answer. `npm run kill -- --line` does all of them. */
import { test } from "node:test";
import { checkLineCase, type LineCase, nameOf, runLineCase } from "./line-cases.ts";

/** One of each kind; the campaign has every combination. */
const CASES: readonly LineCase[] = [
  { provider: "chat", client: "resume", killed: "server", stage: "text" },
  { provider: "google", client: "retry", killed: "group", stage: "arguments" },
  { provider: "claude", client: "whole", killed: "server", stage: "drain" },
  { provider: "responses", client: "retry", killed: "term", stage: "text" },
];

/** What is left without the line: the provider's connection went with it. */
const WITHOUT: readonly LineCase[] = [
  { provider: "chat", client: "retry", killed: "line", stage: "arguments" },
  { provider: "claude", client: "whole", killed: "both", stage: "text" },
];

for (const one of CASES)
  test(`G6: ${nameOf(one)}`, async (t) => {
    const outcome = await runLineCase(t, one);
    checkLineCase(one, outcome);
  });

for (const one of WITHOUT)
  test(`the line is gone: ${nameOf(one)}`, async (t) => {
    const outcome = await runLineCase(t, one);
    checkLineCase(one, outcome);
  });
