/**
 * What the scripted provider is asked to do, as the text of the last user message: `tokens=200 everyMs=5`.
 *
 * The whole script travels in the question, so the provider keeps no state and answers a client of its own and
 * an agent alike.
 */

export interface Question {
  /** Pieces of text in the last answer. */
  readonly tokens: number;
  /** Between two pieces; 0: all at once. */
  readonly everyMs: number;
  /** Of each piece; 0: as long as its stamp. */
  readonly tokenBytes: number;
  /** Answers with one tool call each before the last one. */
  readonly steps: number;
  /** Tool calls in the first answer. */
  readonly parallel: number;
  /** What the model takes for each message that it has not read before; it remembers what it has read. */
  readonly messageUs: number;
}

export const NOTHING: Question = {
  tokens: 1,
  everyMs: 0,
  tokenBytes: 0,
  steps: 0,
  parallel: 0,
  messageUs: 0,
};

/** The tool that a scripted model calls. */
export const TOOL = "tick";
export const TOOL_ABOUT = "Counts.";
export const TOOL_SCHEMA = {
  type: "object",
  properties: { n: { type: "number" } },
  required: ["n"],
} as const;

export function writeQuestion(wanted: Partial<Question>): string {
  return Object.entries(wanted)
    .map(([name, value]) => `${name}=${value}`)
    .join(" ");
}

export function readQuestion(text: string): Question {
  const said = new Map(
    [...text.matchAll(/(\w+)=(\d+)/g)].map(([, name = "", value]) => [name, Number(value)]),
  );
  const of = (name: keyof Question): number => said.get(name) ?? NOTHING[name];
  return {
    tokens: of("tokens"),
    everyMs: of("everyMs"),
    tokenBytes: of("tokenBytes"),
    steps: of("steps"),
    parallel: of("parallel"),
    messageUs: of("messageUs"),
  };
}
