/** Plays flows one after the other, and compares what they cost with what they have to cost. */
import type { Flow } from "./flows.ts";
import { type Counts, type Gateway, since, type Way, WAYS } from "./gateway.ts";

export interface Played {
  readonly flow: string;
  readonly outcome: "ok" | "failed" | "skipped";
  /** By how they came about; undefined when `/metrics` is not shown to us. */
  readonly counts: Counts | undefined;
  /** Undefined when it cannot be counted. */
  readonly providerCalls: number | undefined;
  readonly problems: readonly string[];
}

export async function playAll(
  gateway: Gateway,
  flows: readonly Flow[],
  onPlayed: (played: Played) => void,
): Promise<readonly Played[]> {
  const all: Played[] = [];
  for (const flow of flows) {
    const played = await play(gateway, flow);
    onPlayed(played);
    all.push(played);
  }
  return all;
}

async function play(gateway: Gateway, flow: Flow): Promise<Played> {
  const nothing = { flow: flow.name, counts: undefined, providerCalls: undefined };
  if (flow.needsKill === true && !gateway.canKill) {
    const reason = "there is no way to kill the server: give --kill-pid or --kill-command, or use --own";
    return { ...nothing, outcome: "skipped", problems: [reason] };
  }
  const callsBefore = await gateway.providerCalls();
  const before = await gateway.counts();
  const seen = await flow.play(gateway);
  const after = await gateway.counts();
  const counts = before === undefined || after === undefined ? undefined : since(before, after);
  const callsAfter = await gateway.providerCalls();
  const providerCalls =
    callsBefore === undefined || callsAfter === undefined ? undefined : callsAfter - callsBefore;
  const problems = [
    ...seen,
    ...countProblems(flow, counts),
    ...(gateway.isAlone ? callProblems(flow, providerCalls) : []),
  ];
  return {
    flow: flow.name,
    outcome: problems.length === 0 ? "ok" : "failed",
    counts,
    providerCalls,
    problems,
  };
}

/** Others may use the gateway meanwhile, so more is no failure; less is. */
function countProblems({ counts: wanted }: Flow, counts: Counts | undefined): readonly string[] {
  if (counts === undefined) return [];
  return WAYS.filter((way) => counts[way] < (wanted[way] ?? 0)).map(
    (way) => `${WORDS[way]}: ${counts[way]}, and it has to be ${wanted[way] ?? 0}`,
  );
}

function callProblems({ providerCalls: wanted }: Flow, calls: number | undefined): readonly string[] {
  if (calls === undefined || calls === wanted) return [];
  return [`the provider was called ${calls} times, and it has to be ${wanted}`];
}

/** As people read them. */
export const WORDS: Readonly<Record<Way, string>> = {
  continued_turn: "turns continued",
  continued_conversation: "conversations continued",
  attached: "attached",
  replayed: "replayed",
  fresh: "begun anew",
};
