/**
 * The script of the rehearsal model: what each line of the user's message makes it do, cut into steps.
 *
 * A directive stands at the beginning of a line, in lower case. Tool calls that follow each other belong to one step; what
 * comes after them is the next step, when their results are there. `docs/MODELS.md` has the list for people.
 */
import type { FinishReason, ModelFailureKind, ModelTool } from "../model.ts";
import { askedCall } from "./rehearsal-question.ts";

export type Act =
  | { readonly kind: "say" | "think"; readonly text: string; readonly paceMs: number }
  | { readonly kind: "count"; readonly to: number; readonly paceMs: number }
  | { readonly kind: "long"; readonly words: number; readonly paceMs: number }
  | { readonly kind: "result"; readonly paceMs: number }
  | { readonly kind: "call"; readonly tool: string; readonly args: string; readonly paceMs?: number }
  | {
      readonly kind: "error";
      readonly failure: ModelFailureKind;
      readonly afterWords: number;
      readonly paceMs: number;
    }
  | { readonly kind: "finish"; readonly reason: FinishReason };

export type Step = readonly Act[];

/** Bounds, so that a number with too many digits stays a rehearsal. */
const COUNT_MAX = 100_000;
const WORDS_MAX = 1_000_000;
const PACE_MS_MAX = 60_000;

const ECHO_TOOL = "echo";

export const NOTICE =
  'Rehearsal, no AI: this model repeats what you say, or follows a script ("help" shows it).';

const NO_AI: Act = {
  kind: "say",
  text: "(This is the rehearsal model, not an AI. For a real model, set OPENAI_API_KEY or name another provider.)\n",
  paceMs: 0,
};

export const HELP = `This is the rehearsal model: no AI, it follows the script in your message. One directive per line:
say <text>                       text
say the result                   the results of the tool calls before
think <text>                     thinking
pace <ms> ms                     this long after each word, from here on
count to <n> [every <ms> ms]     1 2 3 ...
long <n>                         n words
call <tool> <json>               a tool call; several lines: several calls in one step
shell <command>                  call shell
edit <path> "<old>" -> "<new>"   call edit
subagent <prompt>                call subagent
tool <text>                      call the declared function tool "echo"
then                             the next step
error <kind> [after <n> words]   fails: invalid_request, model_not_found, rate_limited, unavailable,
                                 unauthenticated, context_too_long, content_filtered
finish <reason>                  ends the step as length, content_filter or error
help                             this text`;

const FAILURES: readonly ModelFailureKind[] = [
  "invalid_request",
  "model_not_found",
  "rate_limited",
  "unavailable",
  "unauthenticated",
  "context_too_long",
  "content_filtered",
];
const FINISHES: readonly FinishReason[] = ["length", "content_filter", "error"];

type Line = Act | { readonly kind: "then" } | { readonly kind: "pace"; readonly paceMs: number };
type Groups = Readonly<Record<string, string | undefined>>;
type Reader = (groups: Groups, paceMs: number, tools: ReadonlySet<string>) => readonly Line[] | undefined;

const DIRECTIVES: readonly (readonly [RegExp, Reader])[] = [
  [/^say the results?[.!]?$/, (_, paceMs) => [{ kind: "result", paceMs }]],
  [/^say (?<text>.+)$/, ({ text = "" }, paceMs) => [{ kind: "say", text, paceMs }]],
  [/^think (?<text>.+)$/, ({ text = "" }, paceMs) => [{ kind: "think", text, paceMs }]],
  [/^pace (?<ms>\d{1,6})(?: ?ms)?$/, ({ ms }) => [{ kind: "pace", paceMs: upTo(ms, PACE_MS_MAX) }]],
  [
    /^count\s+to\s+(?<count>\d{1,7})(?:\s+every\s+(?<ms>\d{1,5})\s*ms)?[.!]?$/i,
    ({ count, ms }, paceMs) => [
      {
        kind: "count",
        to: upTo(count, COUNT_MAX),
        paceMs: ms === undefined ? paceMs : upTo(ms, PACE_MS_MAX),
      },
    ],
  ],
  [
    /^long (?<words>\d{1,9})(?: words)?$/,
    ({ words }, paceMs) => [{ kind: "long", words: upTo(words, WORDS_MAX), paceMs }],
  ],
  [
    /^call (?<tool>[\w.-]{1,64})(?: (?<args>.+))?$/,
    ({ tool = "", args = "{}" }) => [{ kind: "call", tool, args }],
  ],
  [/^shell (?<command>.+)$/, ({ command = "" }) => [call("shell", { command })]],
  [/^edit (?<path>\S+) (?<before>".*") -> (?<after>".*")$/, readEdit],
  [
    /^subagent (?<prompt>.+)$/,
    ({ prompt = "" }) => [call("subagent", { description: "a rehearsed task", prompt })],
  ],
  [/^tool\b\s*(?<text>.*)$/i, readTool],
  [/^then$/, () => [{ kind: "then" }]],
  [/^error (?<failure>[a-z_]+)(?: after (?<words>\d{1,9}) words?)?$/, readError],
  [/^finish (?<reason>[a-z_]+)$/, readFinish],
  [/^help[.!?]?$/i, () => [{ kind: "say", text: HELP, paceMs: 0 }]],
];

/** The model echoes free text, with a line that says so, and calls a tool that a question names. Beside directives it says free text as its answer. */
export function readScript(text: string, offered: readonly ModelTool[]): readonly Step[] {
  const tools: ReadonlySet<string> = new Set(offered.map(({ name }) => name));
  let paceMs = 0;
  let hasDirective = false;
  const acts: Line[] = [];
  for (const line of text.split("\n").map((one) => one.trim())) {
    const read = readLine(line, paceMs, tools);
    hasDirective ||= read !== undefined;
    const said: readonly Line[] = line === "" ? [] : [{ kind: "say", text: line, paceMs }];
    for (const act of read ?? said) {
      if (act.kind === "pace") ({ paceMs } = act);
      else acts.push(act.kind === "call" ? { ...act, paceMs } : act);
    }
  }
  if (hasDirective) return inSteps(acts);
  const asked = askedCall(text, offered);
  if (asked !== undefined) return [[asked], [{ kind: "result", paceMs: 0 }, NO_AI]];
  return [[{ kind: "say", text: `${NOTICE}\n${text}`, paceMs: 0 }]];
}

function readLine(line: string, paceMs: number, tools: ReadonlySet<string>): readonly Line[] | undefined {
  for (const [pattern, read] of DIRECTIVES) {
    const match = pattern.exec(line);
    const acts = match === null ? undefined : read(match.groups ?? {}, paceMs, tools);
    if (acts !== undefined) return acts;
  }
  return undefined;
}

function inSteps(lines: readonly Line[]): readonly Step[] {
  const steps: Act[][] = [[]];
  for (const act of lines) {
    const step = steps.at(-1) ?? [];
    const isNext = act.kind === "then" || (act.kind !== "call" && step.at(-1)?.kind === "call");
    if (isNext && step.length > 0) steps.push([]);
    if (act.kind !== "then" && act.kind !== "pace") steps.at(-1)?.push(act);
  }
  // The user asked for the calls, and wants to see what came of them.
  if (steps.at(-1)?.some(({ kind }) => kind === "call") === true) steps.push([{ kind: "result", paceMs: 0 }]);
  return steps;
}

function readEdit({ path = "", before = "", after = "" }: Groups): readonly Line[] | undefined {
  const [oldText, newText] = [unquoted(before), unquoted(after)];
  if (oldText === undefined || newText === undefined) return undefined;
  return [call("edit", { path, edits: [{ old_text: oldText, new_text: newText }] })];
}

function readTool({ text = "" }: Groups, paceMs: number, tools: ReadonlySet<string>): readonly Line[] {
  if (tools.has(ECHO_TOOL)) {
    const asking = { kind: "say", text: `Asking the tool "${ECHO_TOOL}". `, paceMs } as const;
    return [asking, call(ECHO_TOOL, { text })];
  }
  const missing = `Declare a function tool named "${ECHO_TOOL}" in the request, and it will be asked.`;
  return [{ kind: "say", text: missing, paceMs }];
}

function readError({ failure, words = "0" }: Groups, paceMs: number): readonly Line[] | undefined {
  const known = FAILURES.find((kind) => kind === failure);
  return known === undefined
    ? undefined
    : [{ kind: "error", failure: known, afterWords: upTo(words, WORDS_MAX), paceMs }];
}

function readFinish({ reason }: Groups): readonly Line[] | undefined {
  const known = FINISHES.find((one) => one === reason);
  return known === undefined ? undefined : [{ kind: "finish", reason: known }];
}

function call(tool: string, args: object): Act {
  return { kind: "call", tool, args: JSON.stringify(args) };
}

function unquoted(json: string): string | undefined {
  try {
    const text: unknown = JSON.parse(json);
    return typeof text === "string" ? text : undefined;
  } catch {
    return undefined;
  }
}

function upTo(digits: string | undefined, max: number): number {
  return Math.min(Number(digits ?? 0), max);
}
