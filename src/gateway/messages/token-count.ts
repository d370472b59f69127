/**
 * How many tokens a request has, about: an estimate from its length, made without a tokenizer and without asking a provider.
 *
 * Words of Latin script have about four characters for a token, JSON and code three and a half, other scripts one or two. An image counts by what Anthropic
 * says of one of usual size, a page of a PDF likewise. It errs on the high side: clients use it to see when a conversation becomes too long.
 */
import type { AnswerRequest, LineFile, LineMessage, LinePart } from "../openai/index.ts";

/** Of a message: its role, and what stands around it. */
const AROUND_TOKENS = 4;
const IMAGE_TOKENS = 1_600;
/** A page of a PDF is about so large, and counts as text and image. */
const PAGE_BYTES = 50_000;
const PAGE_TOKENS = 2_500;
/** What a provider says to a model that has tools. */
const TOOLS_TOKENS = 350;

const PLAIN_CHARS = 3.5;

export function countTokens({ system, messages, tools }: AnswerRequest): number {
  const told = messages.reduce((sum, message) => sum + AROUND_TOKENS + ofMessage(message), 0);
  const offered = tools.reduce(
    (sum, { name, description, parametersJson }) => sum + ofText(name + description + parametersJson),
    0,
  );
  const around = tools.length > 0 ? TOOLS_TOKENS : 0;
  return Math.ceil(ofText(system) + told + offered + around);
}

function ofMessage(message: LineMessage): number {
  switch (message.role) {
    case "system":
    case "user":
      return message.parts.reduce((sum, part) => sum + ofPart(part), 0);
    case "assistant": {
      const calls = message.toolCalls.map(({ name, args }) => name + args).join("");
      return ofText(message.text) + ofText(message.reasoning) + ofText(calls);
    }
    case "tool":
      return ofText(message.text) + message.files.reduce((sum, file) => sum + ofFile(file), 0);
  }
}

function ofPart(part: LinePart): number {
  return part.type === "text" ? ofText(part.text) : ofFile(part);
}

function ofFile(file: LineFile): number {
  if (!("bytes" in file)) return IMAGE_TOKENS;
  if (file.mediaType.startsWith("text/")) return file.bytes.length / PLAIN_CHARS;
  return file.mediaType === "application/pdf"
    ? Math.ceil(file.bytes.length / PAGE_BYTES) * PAGE_TOKENS
    : IMAGE_TOKENS;
}

/** What is not ASCII has two bytes and more for each character, and about a token for each. */
function ofText(text: string): number {
  const bytes = Buffer.byteLength(text);
  const others = (bytes - text.length) / 2;
  return (text.length - others) / PLAIN_CHARS + others;
}
