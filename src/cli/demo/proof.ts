/**
 * The proof: what must hold after everything that was done to the turn, checked one by one. Pure.
 *
 * The logs on the disk are one witness, the files another, and the news of the client processes a third; a
 * check holds only when the witnesses agree. Every check says what it found, and what is wrong with it.
 */
import { type AgentServerMessage, TurnEndReason } from "../../protocol/messages.ts";
import type { Check, Evidence } from "./check.ts";
import { counted } from "../terminal.ts";
import type { Entry } from "./evidence.ts";
import { bodyOf, textsOf } from "./news.ts";
import { toolChecks } from "./proof-of-tools.ts";
import type { Life } from "./story.ts";
import { updateOf } from "../../turn/messages.ts";
import { reduce } from "../../turn/view-fold.ts";
import { EMPTY_VIEW } from "../../turn/view.ts";

export function prove(evidence: Evidence): readonly Check[] {
  return [
    eventsCheck(evidence),
    chunksCheck(evidence),
    screenCheck(evidence),
    answerCheck(evidence),
    stepsCheck(evidence),
    ...toolChecks(evidence),
    endCheck(evidence),
  ];
}

function eventsCheck({ events, heads }: Evidence): Check {
  const found = `${counted(events.length, "event")}, numbered 1 to ${events.at(-1)?.number ?? 0}: none missing, none twice`;
  const problems = [...densityProblems(events, 1, "event")];
  if (heads.eventHead !== events.length) {
    problems.push(`the server says that there are ${heads.eventHead} events, the log has ${events.length}`);
  }
  return { name: "events", found, problems };
}

function chunksCheck({ chunks, heads }: Evidence): Check {
  const found = `${counted(chunks.length, "chunk")}, numbered 0 to ${chunks.at(-1)?.number ?? 0}: none missing, none twice`;
  const problems = [...densityProblems(chunks, 0, "chunk")];
  if (heads.nextSeqno !== chunks.length) {
    problems.push(`the server expects chunk ${heads.nextSeqno} next, the log has ${chunks.length}`);
  }
  const requests = chunks.filter(({ message }) => message.message.case === "runRequest").length;
  if (requests !== 1) problems.push(`expected one request for a turn, found ${requests}`);
  return { name: "chunks", found, problems };
}

function densityProblems(
  entries: readonly { readonly number: number }[],
  first: number,
  what: string,
): readonly string[] {
  const at = entries.findIndex(({ number }, index) => number !== first + index);
  return at === -1 ? [] : [`expected ${what} ${first + at}, found ${what} ${entries[at]?.number ?? "none"}`];
}

/** What each client was shown is what the log has, from where it began to the last event, without a gap. */
function screenCheck({ events, lives }: Evidence): Check {
  const problems: string[] = [];
  let pieces = 0;
  let seen = 0;
  for (const { pid, cursor, heard } of lives) {
    // Killed before it had heard anything.
    if (cursor === -1) continue;
    if (cursor > seen) {
      problems.push(`client ${pid} began after event ${cursor}, but no client had seen more than ${seen}`);
    }
    let before = cursor;
    for (const piece of heard) {
      const problem = pieceProblem(piece, before, events);
      if (problem !== undefined) problems.push(`client ${pid} ${problem}`);
      before = piece.eventId;
      pieces++;
    }
    seen = Math.max(seen, before);
  }
  if (seen !== events.length) {
    problems.push(`expected the last event shown to be ${events.length}, found ${seen}`);
  }
  const found = `what ${counted(lives.length, "client process", "client processes")} showed (${pieces} pieces) is what the log says`;
  return { name: "screen", found, problems };
}

function pieceProblem(
  { eventId, body }: Life["heard"][number],
  before: number,
  events: readonly Entry<AgentServerMessage>[],
): string | undefined {
  if (eventId !== before + 1) return `was shown event ${eventId} after event ${before}`;
  const logged = events[before];
  if (logged !== undefined && bodyOf(logged.message) === body) return undefined;
  return `was shown something else as event ${eventId} than the log has`;
}

function answerCheck({ events, play, shown }: Evidence): Check {
  const view = events.reduce((before, { number, message }) => reduce(before, number, message), EMPTY_VIEW);
  const logged = textsOf(view);
  const problems = play.flatMap(({ says }, step) => [
    ...textProblem(`step ${step} of the log`, says, logged[step]),
    ...textProblem(`step ${step} on the screen`, says, shown[step]),
  ]);
  if (shown.length > play.length)
    problems.push(`expected ${play.length} texts on the screen, found ${shown.length}`);
  const words = play.reduce((sum, { says }) => sum + says.split(" ").length, 0);
  return { name: "answer", found: `all ${words} words of the script, in order, each once`, problems };
}

function textProblem(where: string, expected: string, found: string | undefined): readonly string[] {
  if (found?.trim() === expected) return [];
  return [`${where}: expected ${JSON.stringify(expected)}, found ${JSON.stringify(found ?? "")}`];
}

/** A step that was finished is never run again, and none is begun anew: what a kill cut off was continued. */
function stepsCheck({ events, play }: Evidence): Check {
  const problems: string[] = [];
  const finished = new Set<number>();
  for (const event of events) {
    const update = updateOf(event.message);
    const isStep =
      update.case === "stepStarted" || update.case === "stepRestarted" || update.case === "stepCompleted";
    if (!isStep) continue;
    const { step } = update.value;
    if (update.case === "stepRestarted")
      problems.push(`step ${step} began anew at event ${event.number}, and should have continued`);
    if (finished.has(step))
      problems.push(`step ${step} was finished, and runs again at event ${event.number}`);
    if (update.case === "stepCompleted") finished.add(step);
  }
  if (finished.size !== play.length) {
    problems.push(`expected ${play.length} finished steps, found ${finished.size}`);
  }
  const found = `${counted(finished.size, "step")}, each finished once, none started over`;
  return { name: "steps", found, problems };
}

function endCheck({ events }: Evidence): Check {
  const ends = events.filter((event) => updateOf(event.message).case === "turnEnded");
  const last = events.at(-1);
  const update = last === undefined ? undefined : updateOf(last.message);
  const problems: string[] = [];
  if (ends.length !== 1) problems.push(`expected turn_ended once, found it ${ends.length} times`);
  const isCompleted = update?.case === "turnEnded" && update.value.reason === TurnEndReason.COMPLETED;
  if (!isCompleted || last?.mark !== "completed") {
    problems.push("expected the last event to end the turn as completed, found something else");
  }
  return { name: "end", found: "turn_ended once, as the last event", problems };
}
