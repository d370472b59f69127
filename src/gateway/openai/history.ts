/**
 * A request's messages as a conversation: what was before, and what is new.
 *
 * A continued session needs only what is new; a fresh stream gets the whole history, in the form that feeds models. Providers refuse
 * a call without a result and a result without a call, so neither leaves here; and nothing that the client said is lost
 * without a word.
 */
import { hash } from "node:crypto";
import type {
  AssistantChatMessage,
  ChatMessage,
  FilePart,
  TextPart,
  ToolResultPart,
} from "../../protocol/chat-message.ts";
import type {
  AssistantLine,
  LineFile,
  LineMessage,
  LinePart,
  LineText,
  LineThought,
  OpenThought,
  SystemLine,
  ToolLine,
  UserLine,
} from "./line.ts";
import { type Window, windowsOf, withoutRepeats } from "./tool-windows.ts";

export interface RequestSplit {
  /** Up to and with the last assistant message: what a session must have seen. */
  readonly history: readonly LineMessage[];
  /** Results of the tools that were called there. */
  readonly results: readonly ToolLine[];
  /** What was said after it. Neither results nor this: continue. */
  readonly said: readonly SaidLine[];
}

/** What the client says to the model, beside what tools say. */
export type SaidLine = UserLine | SystemLine;

export function splitRequest(messages: readonly LineMessage[]): RequestSplit {
  const from = messages.findLastIndex(({ role }) => role === "assistant") + 1;
  const tail = messages.slice(from);
  return {
    history: messages.slice(0, from),
    results: tail.filter((message) => message.role === "tool"),
    said: tail.filter((message) => message.role === "user" || message.role === "system"),
  };
}

export interface ChatHistory {
  readonly history: readonly ChatMessage[];
  /** The bytes of the files that it names, by blob id. */
  readonly files: ReadonlyMap<string, Uint8Array>;
}

/** `open`: a thought whose token it does not open is left out. */
export function toChatMessages(
  messages: readonly LineMessage[],
  open: OpenThought = () => undefined,
): ChatHistory {
  const files = new Map<string, Uint8Array>();
  const history = windowsOf(messages).flatMap((window) => windowMessages(window, files, open));
  return { history, files };
}

type Files = Map<string, Uint8Array>;

function windowMessages(
  { assistant, results, others }: Window,
  files: Files,
  open: OpenThought,
): readonly ChatMessage[] {
  const said = assistant === undefined ? [] : [assistantMessage(assistant, open)];
  const answered = assistant?.toolCalls.map(({ id, name }, at) =>
    resultPart(id, name, results[at] ?? [], files),
  );
  return [
    ...said,
    ...(answered === undefined || answered.length === 0
      ? []
      : [{ role: "tool", content: answered } as const]),
    ...others.map((message): ChatMessage => otherMessage(message, files, open)),
  ];
}

function named({ name }: { readonly name?: string }): { readonly name?: string } {
  return name === undefined ? {} : { name };
}

function assistantMessage(line: AssistantLine, open: OpenThought): AssistantChatMessage {
  const { reasoning, thoughts = [], toolCalls } = line;
  return {
    role: "assistant",
    ...named(line),
    content: [
      ...(reasoning === "" || thoughts.length > 0 ? [] : [{ type: "reasoning", text: reasoning } as const]),
      ...thoughtsAndText(line, thoughts, open),
      ...toolCalls.map(({ id, name, args }) => {
        const written = args.trim() === "" ? "{}" : args;
        return { type: "tool-call", toolCallId: id, tool: name, args: written } as const;
      }),
    ],
  };
}

/** Each thought where it was thought. */
function thoughtsAndText(
  { text, cacheControl }: AssistantLine,
  thoughts: readonly LineThought[],
  open: OpenThought,
): AssistantChatMessage["content"] {
  const marked = cacheControl === undefined ? {} : { cacheControl };
  const said: AssistantChatMessage["content"][number][] = [];
  let from = 0;
  const say = (to: number): void => {
    if (to > from)
      said.push({ type: "text", text: text.slice(from, to), ...(to < text.length ? {} : marked) });
    from = Math.max(from, to);
  };
  for (const { at, thought } of lastAttempts(thoughts, open)) {
    say(at);
    said.push({ type: "reasoning", text: thought.text, providerMetadata: thought.metadata });
  }
  say(text.length);
  return said;
}

/** A client that read on while a step began anew has the thoughts of both attempts, and some clients repeat what they were given. */
function lastAttempts(thoughts: readonly LineThought[], open: OpenThought) {
  const opened = thoughts
    .filter(({ token }, place) => thoughts.findIndex((one) => one.token === token) === place)
    .flatMap(({ token, at }) => {
      const thought = open(token);
      return thought === undefined ? [] : [{ at, thought }];
    });
  const last = new Map<string, number>();
  for (const { thought } of opened)
    last.set(thought.origin, Math.max(thought.attempt, last.get(thought.origin) ?? 0));
  return opened.filter(({ thought }) => thought.attempt === last.get(thought.origin));
}

const NO_RESULT = "No result was given for this call; whether it took effect is not known.";

function resultPart(
  toolCallId: string,
  tool: string,
  lines: readonly ToolLine[],
  files: Files,
): ToolResultPart {
  const given = withoutRepeats(lines);
  if (given.length === 0)
    return { type: "tool-result", toolCallId, tool, outcome: "unknown", text: NO_RESULT };
  // Without wishes: a result may also go into an open stream, which has no place for them.
  const parts = given.flatMap((line) => line.files.map((file) => barePart(file, files)));
  return {
    type: "tool-result",
    toolCallId,
    tool,
    outcome: given.some(({ isError }) => isError === true) ? "failed" : "done",
    text: given.map(({ text }) => text).join("\n"),
    ...(parts.length === 0 ? {} : { files: parts }),
  };
}

function otherMessage(message: LineMessage, files: Files, open: OpenThought): ChatMessage {
  switch (message.role) {
    case "system":
      return { role: "system", ...named(message), content: message.parts.map(textPart) };
    case "user":
      return {
        role: "user",
        ...named(message),
        content: message.parts.map((part) => userPart(part, files)),
      };
    case "assistant":
      return assistantMessage(message, open);
    case "tool": {
      // Its call is not in the history (a client that compacts cuts there): the words are all that is left.
      const text = `The result of an earlier tool call (${message.toolCallId}):\n${message.text}`;
      const parts = message.files.map((file) => filePart(file, files));
      return { role: "user", content: [{ type: "text", text }, ...parts] };
    }
  }
}

function userPart(part: LinePart, files: Files): TextPart | FilePart {
  return part.type === "text" ? textPart(part) : filePart(part, files);
}

function textPart({ type, text, cacheControl }: LineText): TextPart {
  return { type, text, ...(cacheControl === undefined ? {} : { cacheControl }) };
}

function filePart(file: LineFile, files: Files): FilePart {
  const { detail, cacheControl } = file;
  return {
    ...barePart(file, files),
    ...(detail === undefined ? {} : { detail }),
    ...(cacheControl === undefined ? {} : { cacheControl }),
  };
}

function barePart(file: LineFile, files: Files): FilePart {
  const { mediaType } = file;
  if ("url" in file) return { type: "file", mediaType, url: file.url };
  const blobId = hash("sha256", file.bytes);
  files.set(blobId, file.bytes);
  const { fileName } = file;
  return { type: "file", mediaType, ...(fileName === undefined ? {} : { fileName }), blobId };
}
