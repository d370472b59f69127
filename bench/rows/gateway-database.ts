/**
 * What an answer asks of the database: commits and messages to its thread, the disk that it takes when it is over, and that all of
 * it is given back.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type Measured, numberOf } from "../harness/numbers.ts";
import { writeQuestion } from "../harness/question.ts";
import type { Line, Row } from "../harness/row.ts";
import type { Results, Rounds } from "../harness/rounds.ts";
import { type Asking, startAsking } from "./gateway-peers.ts";
import { proveKept } from "./gateway-proof.ts";

const ANSWERS = 1_000;
const AT_ONCE = 32;
const TURNS = 50;
const MESSAGES = 10;
const SMALL = writeQuestion({ tokens: 2 });
/** Longer than what a gateway does behind an answer. */
const SETTLE_MS = 500;
/** Longer than anything is kept but the tombstones, which follow then. */
const AHEAD_MS = 2 * 24 * 60 * 60_000;
const DISK_BYTES_MAX = 3 * 1024;
/** A tombstone. */
const LEFT_BYTES_MAX = 200;
const BUDGETS = { small: { commits: 2, posts: 4 }, tool: { commits: 5 } } as const;

async function counted(asking: Asking, work: () => Promise<unknown>): Promise<Measured> {
  if (asking.gateway === undefined) throw new Error("Holdfast's gateway was not started");
  await sleep(SETTLE_MS);
  await asking.gateway.call("count");
  await work();
  await sleep(SETTLE_MS);
  return asking.gateway.call("counted");
}

async function database(rounds: Rounds, directory: string): Promise<Measured> {
  const asking = await startAsking(directory, { kind: "holdfast" });
  const { ask, gateway } = asking;
  if (gateway === undefined) throw new Error("Holdfast's gateway was not started");
  const empty = await gateway.call("disk");
  const turns = rounds.size(TURNS, 2);
  const sizes = { sessions: turns, perPrincipal: turns, messages: MESSAGES };
  await ask("ask", { question: SMALL, warmUps: 0, asked: rounds.size(50, 1) });
  const small = await counted(asking, () => ask("ask", { question: SMALL, warmUps: 0, asked: turns }));
  await ask("park", sizes);
  const tool = await counted(asking, () => ask("answerParked"));
  await gateway.call("tidy");
  const before = await gateway.call("disk");
  const answers = rounds.size(ANSWERS, 20);
  await ask("many", { question: SMALL, atOnce: AT_ONCE, count: answers });
  await sleep(SETTLE_MS);
  const raw = await gateway.call("disk");
  await gateway.call("tidy");
  const over = await gateway.call("disk");
  await proveKept(asking);
  await gateway.stop();
  const left = await givenBack(asking);
  const grown = (disk: Measured): number =>
    (numberOf(disk, "diskBytes") - numberOf(before, "diskBytes")) / answers;
  return {
    smallCommits: numberOf(small, "commits") / turns,
    smallPosts: numberOf(small, "posts") / turns,
    toolCommits: numberOf(tool, "commits") / turns,
    toolPosts: numberOf(tool, "posts") / turns,
    rawBytes: grown(raw),
    overBytes: grown(over),
    leftBytes: (numberOf(left, "diskBytes") - numberOf(empty, "diskBytes")) / answers,
  };
}

/** The same data under a clock on which everything is over. */
async function givenBack({ again }: Asking): Promise<Measured> {
  const { peer } = await again(AHEAD_MS);
  await peer.call("count");
  for (let before = -1, expired = 0; expired > before;) {
    before = expired;
    await sleep(2 * SETTLE_MS);
    ({ expired = 0 } = await peer.call("counted"));
  }
  await peer.call("cleanUp");
  return peer.call("disk");
}

type Work = keyof typeof BUDGETS;
const NAMES: Readonly<Record<Work, string>> = { small: "a small answer", tool: "a tool's result" };

function workLines(results: Results, work: Work): readonly Line[] {
  const commits = results.spread("database", `${work}Commits`);
  const posts = results.spread("database", `${work}Posts`);
  const commitsMax = BUDGETS[work].commits;
  const line = { what: `${NAMES[work]}: messages to the database's thread`, unit: "posts", value: posts };
  const { posts: postsMax } = BUDGETS.small;
  return [
    {
      what: `${NAMES[work]}: transactions`,
      unit: "commits",
      value: commits,
      budget: { text: `at most ${commitsMax}`, met: commits.median <= commitsMax },
    },
    work === "small"
      ? { ...line, budget: { text: `at most ${postsMax}`, met: posts.median <= postsMax } }
      : line,
  ];
}

export const gatewayDatabase: Row = {
  name: "gateway-database",
  title: "what the gateway asks of its database, one request at a time, and what is left of an answer there",
  stepsPerRound: 1,
  async run(rounds) {
    const results = await rounds.run({ database: (directory) => database(rounds, directory) });
    const over = results.spread("database", "overBytes");
    const left = results.spread("database", "leftBytes");
    return {
      lines: [
        ...workLines(results, "small"),
        ...workLines(results, "tool"),
        {
          what: "disk, just answered",
          unit: "bytes/answer",
          value: results.spread("database", "rawBytes"),
        },
        {
          what: "disk, when it is over",
          unit: "bytes/answer",
          value: over,
          budget: { text: `at most ${DISK_BYTES_MAX}`, met: over.median <= DISK_BYTES_MAX },
        },
        {
          what: "disk, when its time is over too",
          unit: "bytes/answer",
          value: left,
          budget: { text: `at most ${LEFT_BYTES_MAX}`, met: left.median <= LEFT_BYTES_MAX },
        },
      ],
    };
  },
};
