/**
 * What must come of an answer that its provider breaks off, as data: for every kind of provider, every kind of client, and every place of the break.
 *
 * | can      | the provider                                                             |
 * | -------- | ------------------------------------------------------------------------ |
 * | resume   | keeps the generation, and lets it be read on                             |
 * | prefill  | writes on behind a text that it is given as the beginning of its answer  |
 * | neither  | refuses that, or begins anew; then it counts what the client was shown   |
 *
 * What was shown to a client that can roll back is never final; the text of an OpenAI stream is.
 */
import { FLAVOURS, type Flavour, type ScriptedOptions } from "../models/providers/scripted.ts";
import type { Frame } from "../models/providers/formats.ts";

/** `whole`: one generation, and no event tells of the break. `continued`, `restarted`: an event does. `error`: a clean one. */
export type Outcome = "whole" | "continued" | "restarted" | "error";

export interface Required {
  readonly outcome: Outcome;
  /** Calls of the model for the step; reading a kept generation on is none. */
  readonly requests: number;
}

export const STAGES = [
  /** Not a single event came. */
  "nothing",
  /** Events came, and no content. */
  "first",
  "thinking",
  /** So little text that no prompt could end before its last word. */
  "first_word",
  "text",
  "call",
  "call_behind_text",
  "json",
  "behind_finish",
] as const;
export type Stage = (typeof STAGES)[number];

export const READERS = ["final", "rolls_back"] as const;
export type Reader = (typeof READERS)[number];

type Can = "resume" | "prefill" | "neither";

const WHOLE: Required = { outcome: "whole", requests: 1 };
/** Before any content the request is sent again, and the turn notices nothing. */
const RETRIED: Required = { outcome: "whole", requests: 2 };
const CONTINUED: Required = { outcome: "continued", requests: 2 };
const RESTARTED: Required = { outcome: "restarted", requests: 2 };
const ERROR: Required = { outcome: "error", requests: 1 };

type Row = readonly [resume: Required, prefill: ByReader, neither: ByReader];
type ByReader = Required | Readonly<Record<Reader, Required>>;

const SHOWN = { final: ERROR, rolls_back: RESTARTED } as const;

const ROWS: Readonly<Record<Stage, Row>> = {
  // A run whose name never came cannot be read on.
  nothing: [RETRIED, RETRIED, RETRIED],
  first: [WHOLE, RETRIED, RETRIED],
  thinking: [WHOLE, RESTARTED, RESTARTED],
  // There is nothing that the model could be given as the beginning of its answer.
  first_word: [WHOLE, SHOWN, SHOWN],
  text: [WHOLE, CONTINUED, SHOWN],
  call: [WHOLE, RESTARTED, RESTARTED],
  call_behind_text: [WHOLE, CONTINUED, SHOWN],
  // Two halves of JSON are never joined; what was shown of it is final like any text.
  json: [WHOLE, SHOWN, SHOWN],
  behind_finish: [WHOLE, WHOLE, WHOLE],
};

export interface Kind {
  readonly name: string;
  readonly flavour: Flavour;
  readonly can: Can;
  /** It looks as if it could continue a text, so it is asked once. */
  readonly isAsked?: boolean;
  readonly model?: string;
  readonly config?: { readonly prefill?: "prefix" | "plain"; readonly resume?: boolean };
  readonly options?: ScriptedOptions;
  /** Default: it does. */
  readonly thinks?: boolean;
}

const { chat, responses, claude, olderClaude, google, vllm, olderVllm, prefixed, ollama } = FLAVOURS;
const background = { flavour: responses, can: "resume", config: { resume: true } } as const;

export const KINDS: readonly Kind[] = [
  { name: "OpenAI responses in the background", ...background },
  { name: "the same, behind five minutes", ...background, options: { isTooOld: true } },
  { name: "the same, answered with 404 for a while", ...background, options: { missing: 2 } },
  { name: "OpenAI responses", flavour: responses, can: "neither" },
  { name: "OpenAI chat", flavour: chat, can: "neither", isAsked: true },
  { name: "Claude", flavour: claude, can: "neither" },
  {
    name: "Claude that is said to prefill",
    flavour: claude,
    can: "neither",
    isAsked: true,
    config: { prefill: "plain" },
  },
  {
    name: "Claude up to 4.5",
    flavour: olderClaude,
    can: "prefill",
    model: "claude-sonnet-4-5",
    thinks: false,
  },
  { name: "Google", flavour: google, can: "neither" },
  { name: "vLLM", flavour: vllm, can: "prefill" },
  { name: "vLLM without continue_final_message", flavour: olderVllm, can: "neither", isAsked: true },
  { name: "Mistral", flavour: prefixed, can: "prefill", config: { prefill: "prefix" } },
  { name: "Ollama", flavour: ollama, can: "neither", isAsked: true },
];

export function requiredOf({ can, isAsked = false }: Kind, stage: Stage, reader: Reader): Required {
  const [resume, prefill, neither] = ROWS[stage];
  if (can === "resume") return resume;
  const required = readerOf(can === "prefill" ? prefill : neither, reader);
  const isTried = isAsked && ROWS[stage][1] === CONTINUED;
  return isTried ? { ...required, requests: required.requests + 1 } : required;
}

function readerOf(row: ByReader, reader: Reader): Required {
  return "outcome" in row ? row : row[reader];
}

/** Where an answer is that breaks behind so many of its frames. */
export function stageOf(frames: readonly Frame[], behind: number, isJson: boolean): Stage {
  const places = frames.slice(0, behind).map(({ place }) => place);
  const has = (place: Frame["place"]): boolean => places.includes(place);
  if (has("finish")) return "behind_finish";
  // A call of which only the name is known, behind nothing else, is no content yet.
  const isNamed = has("call") && (has("thinking") || has("text"));
  if (isNamed || has("arguments")) return has("text") ? "call_behind_text" : "call";
  if (has("text") && isJson) return "json";
  if (has("text")) return places.filter((place) => place === "text").length === 1 ? "first_word" : "text";
  if (has("thinking")) return "thinking";
  return behind === 0 ? "nothing" : "first";
}
