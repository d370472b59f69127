/**
 * Plays one break of a scripted provider through the production agent, and holds what came of it against the table.
 *
 * Providers say something else each time where real ones do not continue, and arguments differ each time everywhere: what is joined wrongly is no text
 * of any generation.
 */
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { createAgent } from "../../../src/agent/index.ts";
import { createModels } from "../../../src/agent/models/index.ts";
import { FailureKind, TurnEndReason } from "../../../src/protocol/messages.ts";
import type { Cleanup } from "../../cleanup.ts";
import { KeepingClient, readDone } from "../keeping-client.ts";
import { type Cut, CUTS } from "../models/providers/breaking.ts";
import { MODEL, type Said } from "../models/providers/formats.ts";
import { type Script, scriptedProvider } from "../models/providers/scripted.ts";
import { endOf, kindsOf, textOf } from "../told.ts";
import { TurnHost } from "../turn-host.ts";
import { type Kind, KINDS, READERS, type Reader, requiredOf, type Stage, STAGES, stageOf } from "./table.ts";

const ANSWERS = ["text", "text_and_call", "call", "json"] as const;
type Answer = (typeof ANSWERS)[number];

export interface WayCase {
  readonly kind: Kind;
  readonly reader: Reader;
  readonly answer: Answer;
  readonly behind: number;
  readonly how: Cut;
  readonly stage: Stage;
}

/** These take the time of a clock; all others none. */
export const SLOW: ReadonlySet<Cut> = new Set(["silence", "pings", "comments"]);

/** Longer than an answer takes on a machine that has much else to do. */
const CLOCK_MS = 3_000;
const LONG_MS = 120_000;
/** No answer takes so long. */
const NEVER_MS = 60_000;

/** Short, with characters of several bytes and white space of several kinds. */
const TEXT = "The wind — über dem Meer 🌊 —\n\nturns, as 風 does.";
const RESULT = "a result of the tool";
const LAST_WORDS = "Seen.";

/** Every break of every answer. */
export function everyCase(): readonly WayCase[] {
  const cases: WayCase[] = [];
  for (const kind of KINDS)
    for (const answer of ANSWERS) {
      const frames = kind.flavour.format.frames(saidBy(kind, answer, 1));
      for (let behind = 0; behind <= frames.length; behind++)
        for (const reader of READERS)
          for (const how of CUTS) {
            // A gap is seen only where events are numbered, and where one follows it.
            if (how === "gap" && (kind.can !== "resume" || behind >= frames.length - 1)) continue;
            // What is read on is not shown twice: it makes no difference who reads.
            if (kind.can === "resume" && reader !== "final") continue;
            // Of a gap, what follows it comes: an event has told the run's name.
            const isHead = how === "gap" && behind === 0;
            const stage = isHead ? "first" : stageOf(frames, behind, answer === "json");
            cases.push({ kind, reader, answer, behind, how, stage });
          }
    }
  return cases;
}

/**
 * One of each kind of provider, kind of reader and stage, the cuts in turn; and each cut that takes time once at each stage, the providers in turn.
 */
export function sampledCases(): readonly WayCase[] {
  const cases = everyCase();
  const chosen: WayCase[] = [];
  const take = (found: readonly WayCase[]): void => {
    const one = found[(chosen.length * 7) % Math.max(found.length, 1)];
    if (one !== undefined) chosen.push(one);
  };
  const quick = cases.filter(({ how }) => !SLOW.has(how));
  for (const kind of KINDS)
    for (const reader of READERS)
      for (const stage of STAGES)
        take(quick.filter((one) => one.kind === kind && one.reader === reader && one.stage === stage));
  for (const how of SLOW)
    for (const stage of STAGES) take(cases.filter((one) => one.how === how && one.stage === stage));
  return chosen;
}

export function nameOf({ kind, reader, answer, behind, how, stage }: WayCase): string {
  return `${kind.name}, ${reader}: ${how} behind event ${behind} of ${answer} (${stage})`;
}

function saidBy({ flavour, thinks = true }: Kind, answer: Answer, generation: number): Said {
  const text = flavour.isSteady === true ? TEXT : `Gust ${generation}: ${TEXT}`;
  const thought = thinks ? { thinking: ["Which way ", "is it — 風? "] } : {};
  const calls = [{ name: "read", args: { path: `wind-ü-${generation}.txt` } }];
  switch (answer) {
    case "text":
      return { ...thought, text };
    case "text_and_call":
      return { ...thought, text, calls };
    case "call":
      return { ...thought, calls };
    case "json":
      return { text: JSON.stringify({ wind: text }) };
  }
}

function textSaid({ text = "" }: Said): string {
  return typeof text === "string" ? text : text.join("");
}

export async function runWay(t: Cleanup, one: WayCase): Promise<void> {
  const { kind, reader, answer, behind, how, stage } = one;
  const about = nameOf(one);
  const said: Said[] = [];
  let laterSteps = 0;
  const script: Script = (messages) => {
    if (JSON.stringify(messages).includes(RESULT)) {
      laterSteps++;
      return { text: LAST_WORDS };
    }
    said.push(saidBy(kind, answer, said.length + 1));
    return said.at(-1) ?? {};
  };
  const provider = await scriptedProvider(t, kind.flavour, {
    ...kind.options,
    script,
    breaks: [{ behind, how }],
  });
  const clockMs = SLOW.has(how) ? CLOCK_MS : LONG_MS;
  const clocks = {
    firstContentMs: clockMs,
    writingMs: clockMs,
    pingedWritingMs: clockMs,
    thinkingMs: clockMs,
  };
  const models = createModels({
    providers: { test: { ...provider.config, apiKeyEnv: "KEY", ...kind.config } },
    environment: { KEY: "sk-test" },
    patience: { backoffMs: 1, ...clocks, quietThinkingMs: clockMs },
  });
  const host = new TurnHost();
  const client = new KeepingClient(host);
  client.carryOut = () => readDone(RESULT);
  const format =
    answer === "json" ? { responseFormat: { format: { case: "json", value: {} } } as const } : {};
  client.ask("Which way is the wind?", {
    model: `test/${kind.model ?? MODEL}`,
    options: { shownIsFinal: reader === "final", ...format },
  });
  await host.finish(createAgent({ models, backoffMs: 1 }));

  const { messages } = host;
  const required = requiredOf(kind, stage, reader);
  const requests = provider.calls.length - laterSteps;
  assert.deepEqual({ outcome: outcomeOf(host), requests }, required, about);
  // What a reader without roll back has seen of it, and what one with it has in the end.
  const seen = reader === "final" ? rawText(host) : textOf(messages);
  const text = laterSteps > 0 && seen.endsWith(LAST_WORDS) ? seen.slice(0, -LAST_WORDS.length) : seen;
  const texts = said.map(textSaid);
  if (required.outcome === "error") assert.ok(texts[0]?.startsWith(text), `G1: ${about}: ${text}`);
  else assert.ok(texts.includes(text), `G1: ${about}: ${text}`);
  if (required.outcome === "whole" && required.requests === 1) assert.equal(text, texts[0], about);
  const hasCall = required.outcome !== "error" && said.some(({ calls = [] }) => calls.length > 0);
  assert.equal(client.carriedOut.length, hasCall ? 1 : 0, about);
  const paths = client.carriedOut.map(({ message }) =>
    message.case === "readArgs" ? message.value.path : "",
  );
  for (const path of paths) assert.match(path, /^wind-ü-\d+\.txt$/u, `G3: ${about}`);
  // A run whose name never came cannot be cancelled.
  const isNameless = kind.can === "resume" && stage === "nothing";
  assert.deepEqual(provider.runs.running, isNameless ? ["resp_1"] : [], `G4: ${about}`);
}

function outcomeOf({ messages }: TurnHost): string {
  const { reason, failure } = endOf(messages);
  const kinds = kindsOf(messages);
  if (failure?.kind === FailureKind.UPSTREAM_INTERRUPTED) return "error";
  if (reason !== TurnEndReason.COMPLETED) return failure?.message ?? "failed";
  if (kinds.includes("stepRestarted")) return "restarted";
  return kinds.includes("stepContinued") ? "continued" : "whole";
}

/** All text that was told, whatever was rolled back. */
function rawText({ messages }: TurnHost): string {
  return messages
    .map(({ message }) =>
      message.case === "interactionUpdate" && message.value.message.case === "textDelta"
        ? message.value.message.value.text
        : "",
    )
    .join("");
}

/** Some at a time; what fails is collected, so that a change shows all that it breaks. */
export async function runWays(cases: readonly WayCase[], atOnce: number): Promise<readonly string[]> {
  const failures: string[] = [];
  const waiting = cases.values();
  const work = async (): Promise<void> => {
    for (const one of waiting) {
      const after: (() => void | Promise<void>)[] = [];
      try {
        const late = sleep(NEVER_MS, `${nameOf(one)}: it does not end`, { ref: false });
        const why = await Promise.race([runWay({ after: (act) => void after.push(act) }, one), late]);
        if (why !== undefined) failures.push(why);
      } catch (error) {
        failures.push(error instanceof Error ? error.message : String(error));
      } finally {
        for (const act of after) await act();
      }
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  return failures;
}
