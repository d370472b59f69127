/** The campaign of `npm run kill -- --sdk`: so many kills for each signal, spread over SDKs, stages and places in the text. */
import { USERS } from "../fetch/users.ts";
import { checkSdkCase, SDK_STAGES, type SdkCase, sdkCaseName, SdkRig, SIGNALS } from "./sdk-cases.ts";

export interface SdkReport {
  readonly kills: number;
  readonly answers: number;
  /** Requests that the provider got. */
  readonly requests: number;
  readonly bySignal: Readonly<Record<string, number>>;
  readonly byStage: Readonly<Record<string, number>>;
  readonly silentMsMedian: number;
}

const WORDS_MAX = 20;

/** Half of them stop in the text; the others take turns. */
export function sdkCases(kills: number): readonly SdkCase[] {
  const sdks = Object.keys(USERS);
  return Array.from({ length: kills }, (_, at) => {
    const round = Math.floor(at / SIGNALS.length);
    const stage = round % 2 === 0 ? "text" : (SDK_STAGES[(round >> 1) % SDK_STAGES.length] ?? "text");
    return {
      signal: SIGNALS[at % SIGNALS.length] ?? "SIGKILL",
      sdk: sdks[((round >> 1) + at) % sdks.length] ?? "",
      stage,
      words: 1 + ((at * 7) % WORDS_MAX),
      isDeafToIt: (round >> 1) % 2 === 0,
    };
  });
}

export async function runSdkKills({
  cycles,
  say,
}: {
  readonly cycles: number;
  readonly say: (line: string) => void;
}): Promise<SdkReport> {
  const after: (() => void | Promise<void>)[] = [];
  const silent: number[] = [];
  const bySignal: Record<string, number> = {};
  const byStage: Record<string, number> = {};
  let [answers, requests] = [0, 0];
  try {
    const rig = await SdkRig.begin({ after: (act) => void after.push(act) });
    for (const one of sdkCases(cycles)) {
      const outcome = await rig.run(one);
      say(`${sdkCaseName(one)}: ${outcome.requests} request(s), ${Math.round(outcome.silentMs)} ms`);
      checkSdkCase(one, outcome);
      answers += outcome.answers;
      requests += outcome.requests;
      silent.push(outcome.silentMs);
      bySignal[one.signal] = (bySignal[one.signal] ?? 0) + 1;
      byStage[one.stage] = (byStage[one.stage] ?? 0) + 1;
    }
  } finally {
    for (const act of after) await act();
  }
  const sorted = silent.toSorted((a, b) => a - b);
  const silentMsMedian = Math.round(sorted[Math.floor(sorted.length / 2)] ?? 0);
  return { kills: silent.length, answers, requests, bySignal, byStage, silentMsMedian };
}
