/**
 * What a turn with 20 tool calls costs, one after another and all at once, against a loop that keeps nothing.
 */
import { type Measured, numberOf } from "../harness/numbers.ts";
import { type Question, writeQuestion } from "../harness/question.ts";
import type { Line, Row } from "../harness/row.ts";
import type { Results, Rounds } from "../harness/rounds.ts";
import { type Journal, startDirect, startTalking } from "./agent-peers.ts";

const CALLS = 20;

interface Shape {
  readonly label: string;
  readonly question: Partial<Question>;
}

const SHAPES: Readonly<Record<"steps" | "parallel", Shape>> = {
  steps: { label: `${CALLS} steps, a call each`, question: { steps: CALLS } },
  parallel: { label: `one step with ${CALLS} calls`, question: { parallel: CALLS } },
};

type ShapeName = keyof typeof SHAPES;

function sizesOf(rounds: Rounds): { readonly warmUps: number; readonly turns: number } {
  return { warmUps: rounds.size(10, 1), turns: rounds.size(20, 1) };
}

function checked(measured: Measured): Measured {
  const calls = numberOf(measured, "toolCalls");
  if (calls !== CALLS) throw new Error(`the tool ran ${calls} times in a turn, not ${CALLS}`);
  return measured;
}

async function looped(rounds: Rounds, shape: ShapeName): Promise<Measured> {
  const question = writeQuestion(SHAPES[shape].question);
  const { load, port } = await startDirect();
  return checked(await load.call("turns", { ...sizesOf(rounds), question, port }));
}

async function throughHoldfast(
  rounds: Rounds,
  directory: string,
  shape: ShapeName,
  journal: Journal,
): Promise<Measured> {
  const { client, server, provider } = await startTalking(directory, journal);
  const question = writeQuestion(SHAPES[shape].question);
  const { warmUps, turns } = sizesOf(rounds);
  await client.call("turns", { question, turns: warmUps });
  await Promise.all([server.peer.call("count"), provider.peer.call("counted")]);
  const measured = checked(await client.call("turns", { question, turns }));
  const counted = { ...(await server.peer.call("counted")), ...(await provider.peer.call("counted")) };
  const perTurn = Object.entries(counted).map(([name, value]) => [name, value / turns] as const);
  const syncMs = (1_000 * numberOf(counted, "syncSeconds")) / numberOf(counted, "syncs");
  return { ...measured, ...Object.fromEntries(perTurn), syncMs };
}

function linesOf(results: Results, shape: ShapeName): readonly Line[] {
  const { label } = SHAPES[shape];
  const [ours, memory, loop] = [shape, `${shape}, memory`, `${shape}, loop`];
  const line = (variant: string, what: string, unit: string, name: string): Line => ({
    what: `${label}: ${what}`,
    unit,
    value: results.spread(variant, name),
  });
  const against = (variant: string, name: string) => ({
    ratio: { to: "loop", value: results.ratio(variant, loop, name) },
  });
  const count = (name: string): number => Math.round(results.median(ours, name));
  const counts =
    `${count("modelCalls")} model calls, ${count("events")} events, ${count("chunks")} chunks, ` +
    `${(count("logBytes") / 1024).toFixed(0)} KiB in the server's log`;
  return [
    line(loop, "a loop without Holdfast", "ms", "wallMs"),
    { ...line(ours, "Holdfast", "ms", "wallMs"), ...against(ours, "wallMs"), note: counts },
    { ...line(memory, "Holdfast, client's journal in memory", "ms", "wallMs"), ...against(memory, "wallMs") },
    line(ours, "syncs of the server", "per turn", "syncs"),
    line(ours, "writes of the client's disk", "per turn", "clientWrites"),
    line(ours, "one sync of the server's log, mean", "ms", "syncMs"),
    line(ours, "processor time of the server", "ms", "serverCpuMs"),
    { ...line(ours, "processor time of the client", "ms", "clientCpuMs"), ...against(ours, "clientCpuMs") },
  ];
}

export const toolTurn: Row = {
  name: "tool-turn",
  title: `a turn with ${CALLS} tool calls, against a loop that calls the same provider and keeps nothing`,
  stepsPerRound: 6,
  async run(rounds) {
    const results = await rounds.run({
      "steps, loop": () => looped(rounds, "steps"),
      steps: (directory) => throughHoldfast(rounds, directory, "steps", "disk"),
      "steps, memory": (directory) => throughHoldfast(rounds, directory, "steps", "memory"),
      "parallel, loop": () => looped(rounds, "parallel"),
      parallel: (directory) => throughHoldfast(rounds, directory, "parallel", "disk"),
      "parallel, memory": (directory) => throughHoldfast(rounds, directory, "parallel", "memory"),
    });
    return { lines: [...linesOf(results, "steps"), ...linesOf(results, "parallel")] };
  },
};
