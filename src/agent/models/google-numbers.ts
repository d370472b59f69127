/**
 * The numbers in Google's tool calls, as Google wrote them.
 *
 * Google sends arguments as a value inside its events, and the SDK parses the event: 12345678901234567890 would be
 * 12345678901234567000 before this code saw it. So a number of the arguments that JavaScript would write otherwise is marked and quoted
 * in the event, and unquoted in the arguments that the SDK makes of it. White space is lost on this way; it is Google's, not the model's.
 */
import type { LanguageModelV4, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { randomBytes } from "node:crypto";
import { isJsonObject } from "../../protocol/chat-message.ts";
import type { Fetch } from "./providers.ts";

const MARK = `number-${randomBytes(16).toString("hex")}:`;
const MARKED = new RegExp(`"${MARK}([-+.0-9eE]+)"`, "g");
const STRING_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g;

/** `fetch` whose event streams have marked numbers in the arguments of tool calls. */
export function markedNumbersFetch(fetch: Fetch): Fetch {
  return async (url, init) => {
    const response = await fetch(url, init);
    const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
    if (response.body === null || !isStream) return response;
    const body = response.body
      .pipeThrough(new TextDecoderStream())
      .pipeThrough(markedLines())
      .pipeThrough(new TextEncoderStream());
    const { status, statusText, headers } = response;
    return new Response(body, { status, statusText, headers });
  };
}

function markedLines(): TransformStream<string, string> {
  let rest = "";
  return new TransformStream<string, string>({
    transform: (text, controller) => {
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) controller.enqueue(`${markedLine(line)}\n`);
    },
    flush: (controller) => controller.enqueue(markedLine(rest)),
  });
}

function markedLine(line: string): string {
  if (!line.startsWith("data:") || !line.includes('"functionCall"')) return line;
  const json = line.slice("data:".length);
  const marked = json.replaceAll(STRING_OR_NUMBER, (token) =>
    token.startsWith('"') || String(Number(token)) === token ? token : `"${MARK}${token}"`,
  );
  if (marked === json) return line;
  try {
    return `data: ${JSON.stringify(withCallsOf(JSON.parse(json), JSON.parse(marked)))}`;
  } catch {
    // What is no JSON is the SDK's to complain of.
    return line;
  }
}

/** The first value, with the tool calls of the second: other numbers are counts, and read as such. */
function withCallsOf(plain: unknown, marked: unknown): unknown {
  if (Array.isArray(plain) && Array.isArray(marked))
    return plain.map((one, at) => withCallsOf(one, marked[at]));
  if (!isJsonObject(plain) || !isJsonObject(marked)) return plain;
  const members = Object.entries(plain).map(([name, value]): readonly [string, unknown] => [
    name,
    name === "functionCall" ? marked[name] : withCallsOf(value, marked[name]),
  ]);
  return Object.fromEntries(members);
}

/** The model, with the numbers as they were. */
export function plainNumbers(model: LanguageModelV4): LanguageModelV4 {
  const { specificationVersion, provider, modelId, supportedUrls } = model;
  return {
    specificationVersion,
    provider,
    modelId,
    supportedUrls,
    doGenerate: (options) => model.doGenerate(options),
    doStream: async (options) => {
      const { stream, ...rest } = await model.doStream(options);
      const parts = new TransformStream<LanguageModelV4StreamPart, LanguageModelV4StreamPart>({
        transform: (part, controller) => controller.enqueue(plainPart(part)),
      });
      return { ...rest, stream: stream.pipeThrough(parts) };
    },
  };
}

function plainPart(part: LanguageModelV4StreamPart): LanguageModelV4StreamPart {
  if (part.type === "tool-call") return { ...part, input: unmarked(part.input) };
  return part.type === "tool-input-delta" ? { ...part, delta: unmarked(part.delta) } : part;
}

function unmarked(json: string): string {
  return json.replaceAll(MARKED, "$1");
}
