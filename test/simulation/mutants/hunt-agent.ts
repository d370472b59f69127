/**
 * Lets a conversation die at one point after the other until one notices the bug that `plant.ts` has planted; prints
 * the number of the point and what was seen there. The point that noticed it last time goes first; 0 is no crash.
 */
import { checkCrash } from "../agent-comparison.ts";
import { type AgentCrash, type Conversed, converse } from "../agent-scenario.ts";
import { checkRuns } from "./check-runs.ts";

const OPTIONS = { seed: 1, turns: 1 };
/** Neighbouring points mostly show the same: first those that are far from each other. */
const STRIDE = 17;

const [known = "", tries = ""] = process.argv.slice(2);

process.stdout.write(`${(await search()) ?? "none\tno crash noticed it"}\n`);
// Worlds that were broken off leave promises behind that nobody will settle.
process.exit(0);

async function search(): Promise<string | undefined> {
  let whole: Conversed;
  try {
    whole = await converse(OPTIONS);
  } catch (cause) {
    return told(0, cause);
  }
  const crashes = [...whole.points.server, ...whole.points.client];
  const places = Array.from({ length: STRIDE }, (_, at) => at).flatMap((first) =>
    crashes.flatMap((crash, at) => (at % STRIDE === first ? [{ crash, place: at + 1 }] : [])),
  );
  const before = places.filter(({ place }) => place === Number(known));
  for (const { crash, place } of [...before, ...places.slice(0, Number(tries))]) {
    const noticed = await attempt(crash, place, whole);
    if (noticed !== undefined) return noticed;
  }
  return undefined;
}

async function attempt(crash: AgentCrash, place: number, whole: Conversed): Promise<string | undefined> {
  try {
    await checkCrash(OPTIONS, crash, whole);
    return undefined;
  } catch (failure) {
    return told(place, failure);
  }
}

/** The innermost cause is what a check said. */
function told(place: number, failure: unknown): string {
  checkRuns(failure);
  let cause = failure;
  while (cause instanceof Error && cause.cause instanceof Error) ({ cause } = cause);
  const [what = ""] = (cause instanceof Error ? cause.message : String(cause)).split("\n");
  return `${place}\t${what.replaceAll("\t", " ")}`;
}
