/**
 * The same few answers in each provider's format: a text, a tool call, a refusal to write on, an error. What the failure tests run over.
 */
import {
  ANTHROPIC,
  anthropicStop,
  candidateOf,
  CHAT,
  chunkOf,
  type Format,
  type Frame,
  GOOGLE,
  type Place,
  RESPONSES,
  responseOf,
} from "./formats.ts";
import { type Act, cutAfter, events, refuses, silentAfter } from "./server.ts";

export interface Wire {
  readonly type: Format["type"];
  readonly format: Format;
  /** The events of an answer that says "north" and then "east". */
  readonly answer: readonly unknown[];
  /** How many of them come up to and with the first word. */
  readonly begun: number;
  /** How many up to and with the one that says that the answer is whole. */
  readonly finished: number;
  /** The events of an answer that thinks "hm", then calls the tool `read` for a.txt. */
  readonly calling: readonly unknown[];
  /** How many of them come up to and with the thought, the tool's name, a first piece of the arguments. */
  readonly thought: number;
  readonly named: number;
  readonly calledHalf: number;
  readonly error: Format["error"];
  /** An error within the stream that means "overloaded". */
  readonly overloaded: unknown;
  readonly tooLong: Act;
  readonly filtered: Act;
  readonly filteredLate: Act;
}

const READ = { name: "read", args: { path: "a.txt" }, id: "call_1" };

function wire(format: Format, more: Pick<Wire, "tooLong" | "filtered" | "filteredLate">): Wire {
  const answer = format.frames({ text: ["north", "east"] });
  const calling = format.frames({ thinking: ["hm"], calls: [READ] });
  return {
    type: format.type,
    format,
    answer: answer.map(({ data }) => data),
    begun: upTo(answer, "text"),
    finished: upTo(answer, "finish"),
    calling: calling.map(({ data }) => data),
    thought: upTo(calling, "thinking"),
    named: upTo(calling, "call"),
    calledHalf: upTo(calling, "arguments"),
    error: format.error,
    overloaded: format.overloaded,
    ...more,
  };
}

/** How many frames come up to and with the first one of that place. */
export function upTo(frames: readonly Frame[], place: Place): number {
  return frames.findIndex((frame) => frame.place === place) + 1;
}

/** An answer that breaks off behind its first word, up to there. */
function northIn(format: Format): readonly unknown[] {
  const frames = format.frames({ text: ["north"] });
  return frames.slice(0, upTo(frames, "text")).map(({ data }) => data);
}

const filteredResponse = {
  type: "response.incomplete",
  response: responseOf("incomplete", [], { incomplete_details: { reason: "content_filter" } }),
};

export const WIRES: readonly Wire[] = [
  wire(CHAT, {
    tooLong: refuses(
      400,
      CHAT.error(400, "context_length_exceeded", "This model's maximum context length is 8192"),
    ),
    filtered: events(chunkOf({ role: "assistant", content: "" }), chunkOf({}, "content_filter"), "[DONE]"),
    filteredLate: events(...northIn(CHAT), chunkOf({}, "content_filter"), "[DONE]"),
  }),
  wire(RESPONSES, {
    tooLong: refuses(
      400,
      RESPONSES.error(400, "context_length_exceeded", "Your input exceeds the context window"),
    ),
    filtered: events({ type: "response.created", response: responseOf("in_progress") }, filteredResponse),
    filteredLate: events(...northIn(RESPONSES), filteredResponse),
  }),
  wire(ANTHROPIC, {
    tooLong: refuses(
      400,
      ANTHROPIC.error(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
    ),
    filtered: events(ANTHROPIC.frames({})[0]?.data, anthropicStop("refusal"), { type: "message_stop" }),
    filteredLate: events(
      ...northIn(ANTHROPIC),
      { type: "content_block_stop", index: 0 },
      anthropicStop("refusal"),
      { type: "message_stop" },
    ),
  }),
  wire(GOOGLE, {
    tooLong: refuses(
      400,
      GOOGLE.error(
        400,
        "INVALID_ARGUMENT",
        "The input token count (2000000) exceeds the maximum number of tokens allowed",
      ),
    ),
    filtered: events({ promptFeedback: { blockReason: "SAFETY" }, usageMetadata: { promptTokenCount: 9 } }),
    filteredLate: events(...northIn(GOOGLE), candidateOf([], "SAFETY")),
  }),
];

export const answers = ({ answer }: Wire): Act => events(...answer);
export const breaksOff = ({ answer, begun }: Wire): Act => cutAfter(...answer.slice(0, begun));
export const endsEarly = ({ answer, begun }: Wire): Act => events(...answer.slice(0, begun));
export const fallsSilent = ({ answer, begun }: Wire): Act => silentAfter(...answer.slice(0, begun));
export const saysGarbage = ({ answer, begun }: Wire): Act =>
  events(...answer.slice(0, begun), '{"half an obj');
export const failsInside = ({ answer, begun, overloaded }: Wire): Act =>
  events(...answer.slice(0, begun), overloaded);
