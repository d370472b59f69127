/**
 * The part of the proof that is about tools: asked once, run at most once, answered once, and honest about what
 * cannot be known. Pure.
 */
import { isTerminal } from "../../turn/exec-reply.ts";
import type { AgentClientMessage, ExecServerMessage } from "../../protocol/messages.ts";
import type { Check, Evidence } from "./check.ts";
import { counted } from "../terminal.ts";
import type { Entry } from "./evidence.ts";
import { beginning, commandOf, type Deed, ending, LETTER_AFTER, type PlayStep } from "./play.ts";
import type { Life, Run } from "./story.ts";
import { outcomeName } from "../../turn/tool-outcome.ts";
import { updateOf } from "../../turn/messages.ts";

export function toolChecks(evidence: Evidence): readonly Check[] {
  return [
    execsCheck(evidence),
    orderCheck(evidence),
    runsCheck(evidence),
    deedsCheck(evidence),
    unknownCheck(evidence),
    letterCheck(evidence),
  ];
}

function requestsOf({ events }: Evidence): readonly ExecServerMessage[] {
  return events.flatMap(({ message: { message } }) =>
    message.case === "execServerMessage" ? [message.value] : [],
  );
}

/** The exec that a chunk ends. */
function answeredBy({ message: { message } }: Entry<AgentClientMessage>): string | undefined {
  if (message.case === "execClientMessage" && isTerminal(message.value)) return message.value.execId;
  const control = message.case === "execClientControlMessage" ? message.value.message : undefined;
  return control?.case === "throw" ? control.value.execId : undefined;
}

function execsCheck(evidence: Evidence): Check {
  const asked = tally(requestsOf(evidence).map(({ execId }) => execId));
  const answered = tally(evidence.chunks.flatMap((chunk) => answeredBy(chunk) ?? []));
  const problems: string[] = [];
  for (const execId of new Set([...asked.keys(), ...answered.keys()])) {
    const [asks, answers] = [asked.get(execId) ?? 0, answered.get(execId) ?? 0];
    if (asks !== 1) problems.push(`exec ${execId}: expected to be asked for once, found ${asks} times`);
    if (answers !== 1) problems.push(`exec ${execId}: expected to be answered once, found ${answers} times`);
  }
  const expected = evidence.play.reduce((sum, step) => sum + execCount(step), 0);
  if (asked.size !== expected) problems.push(`expected ${expected} execs, found ${asked.size}`);
  return { name: "execs", found: `${asked.size}, each asked for once and answered once`, problems };
}

/** An edit reads, then writes. */
function execCount({ deeds, edits }: PlayStep): number {
  return deeds.length + (edits ? 2 : 0);
}

/** No exec leaves before the step that wants it is durable as a whole (C0). */
function orderCheck({ events }: Evidence): Check {
  const problems: string[] = [];
  let isOpen = true;
  for (const event of events) {
    const { message } = event.message;
    const update = updateOf(event.message);
    if (update.case === "stepStarted" || update.case === "stepRestarted") isOpen = true;
    if (update.case === "stepCompleted") isOpen = false;
    if (message.case === "execServerMessage" && isOpen) {
      problems.push(
        `exec ${message.value.execId} was asked for at event ${event.number}, before its step was complete`,
      );
    }
  }
  return { name: "order", found: "no tool was asked for before its step was complete and on disk", problems };
}

/** Reading twice does no more than reading once. */
function hasEffect({ tool }: Run): boolean {
  return tool !== "read";
}

function runsCheck({ lives }: Evidence): Check {
  const runs = lives.flatMap((life) => life.runs).filter(hasEffect);
  const problems = [...tally(runs.map(({ execId }) => execId))]
    .filter(([, count]) => count !== 1)
    .map(([execId, count]) => `exec ${execId}: expected to run at most once, found ${count} runs`);
  const found = `${counted(runs.length, "tool")} with effects begun, none twice, by ${counted(lives.length, "client process", "client processes")}`;
  return { name: "runs", found, problems };
}

interface DeedOnDisk {
  readonly deed: Deed;
  readonly outcome: string;
  readonly begun: number;
  readonly ended: number;
}

function deedsOnDisk(evidence: Evidence): readonly DeedOnDisk[] {
  const lines = tally(evidence.deeds);
  return evidence.play.flatMap(({ deeds }) =>
    deeds.map((deed) => ({
      deed,
      outcome: outcomeOf(deed, evidence),
      begun: lines.get(beginning(deed)) ?? 0,
      ended: lines.get(ending(deed)) ?? 0,
    })),
  );
}

/** As the model got it. */
function outcomeOf(deed: Deed, evidence: Evidence): string {
  const command = commandOf(deed);
  const request = requestsOf(evidence).find(({ message: { value } }) => {
    const args: object = value ?? {};
    return "command" in args && args.command === command;
  });
  for (const event of evidence.events) {
    const update = updateOf(event.message);
    const call = update.case === "toolCallCompleted" ? update.value.toolCall : undefined;
    if (call !== undefined && request !== undefined && call.execIds.includes(request.execId)) {
      return outcomeName(call.outcome) ?? "never reported";
    }
  }
  return "never reported";
}

/** The files do not lie: what is done happened once, what is unknown at most once, and nothing else is there. */
function deedsCheck(evidence: Evidence): Check {
  const deeds = deedsOnDisk(evidence);
  const problems = deeds.flatMap(({ deed, outcome, begun, ended }) => {
    const found = `${deed.label} (${outcome}): found ${begun} beginnings and ${ended} endings in the file`;
    if (outcome === "done") return begun === 1 && ended === 1 ? [] : [`${found}, expected one of each`];
    if (outcome === "unknown")
      return begun <= 1 && ended <= begun ? [] : [`${found}, expected at most one of each`];
    return [`${found}, expected the outcome done or unknown`];
  });
  const known = new Set(deeds.flatMap(({ deed }) => [beginning(deed), ending(deed)]));
  for (const line of evidence.deeds) {
    if (!known.has(line)) problems.push(`expected no line ${JSON.stringify(line)} in the file, found one`);
  }
  const found = `${counted(evidence.deeds.length, "line")} of ${counted(deeds.length, "command")} in the file, none of them twice`;
  return { name: "effects", found, problems };
}

/** Unknown is what was running in a client when it was killed: no more, and no less. */
function unknownCheck(evidence: Evidence): Check {
  const cutOff = new Set(evidence.lives.flatMap(cutOffRuns).map(({ about }) => about));
  const problems = deedsOnDisk(evidence).flatMap(({ deed, outcome }) => {
    const wasCutOff = cutOff.has(commandOf(deed));
    if ((outcome === "unknown") === wasCutOff) return [];
    return wasCutOff
      ? [`${deed.label} was cut off by a kill: expected the outcome unknown, found ${outcome}`]
      : [`${deed.label} was not cut off: expected an outcome, found unknown`];
  });
  const unknown = deedsOnDisk(evidence).filter(({ outcome }) => outcome === "unknown");
  const labels = unknown.map(({ deed, ended }) => `${deed.label} (${ended === 0 ? "stopped" : "ran on"})`);
  const found =
    labels.length === 0
      ? "no tool was cut off, and none has an unknown outcome"
      : `${labels.join(", ")}: its client was killed while it ran; said so, and not run again`;
  return { name: "unknown", found, problems };
}

function cutOffRuns({ isKilled, runs }: Life): readonly Run[] {
  return isKilled ? runs.filter((run) => !run.isOver && hasEffect(run)) : [];
}

function letterCheck({ letter }: Evidence): Check {
  const problems =
    letter === LETTER_AFTER
      ? []
      : [`expected ${JSON.stringify(LETTER_AFTER)} in the edited file, found ${JSON.stringify(letter)}`];
  return { name: "edit", found: "the file was edited once, and is whole", problems };
}

function tally(names: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}
