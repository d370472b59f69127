/**
 * The bodies of simulated clients that speak Responses or Messages: the same conversation in another form. Chat, which has many ways to write the same, is in `messages.ts`.
 */
import { LIMITS } from "../../../src/protocol/limits.ts";
import type { SimBody, SimMessage } from "./messages.ts";

type Json = Readonly<Record<string, unknown>>;

export function writtenBy(door: "responses" | "messages", body: SimBody): Json {
  return door === "responses" ? writtenResponse(body) : writtenMessages(body);
}

/** Its tools alone are more than a chunk may have. */
function describes(name: string, isHuge: boolean): string {
  return isHuge ? "x".repeat(LIMITS.chunkBytesMax) : `does ${name}`;
}

const PARAMETERS = { type: "object", properties: { of: { type: "string" } } };

function writtenResponse({ model, system, tools, messages, marker, stream, isHuge }: SimBody): Json {
  const names = isHuge ? [...tools, "huge"] : tools;
  return {
    model,
    ...(system === "" ? {} : { instructions: system }),
    input: messages.flatMap(itemsOf),
    max_output_tokens: marker,
    store: false,
    stream,
    tools: names.map((name) => ({
      type: "function",
      name,
      description: describes(name, name === "huge"),
      parameters: PARAMETERS,
    })),
  };
}

function itemsOf(message: SimMessage): readonly Json[] {
  switch (message.role) {
    case "user":
      return [{ type: "message", role: "user", content: [{ type: "input_text", text: message.text }] }];
    case "tool":
      return [{ type: "function_call_output", call_id: message.id, output: message.text }];
    case "assistant": {
      const calls = message.calls.map(({ id, name, args }) => {
        return { type: "function_call", call_id: id, name, arguments: args };
      });
      const content = [{ type: "output_text", text: message.text, annotations: [] }];
      const isSaid = message.text !== "" || calls.length === 0;
      return [...(isSaid ? [{ type: "message", role: "assistant", content }] : []), ...calls];
    }
  }
}

function writtenMessages({ model, system, tools, messages, marker, stream, isHuge }: SimBody): Json {
  const names = isHuge ? [...tools, "huge"] : tools;
  return {
    model,
    ...(system === "" ? {} : { system }),
    messages: messages.map(blocksOf),
    max_tokens: marker,
    stream,
    tools: names.map((name) => ({
      name,
      description: describes(name, name === "huge"),
      input_schema: PARAMETERS,
    })),
  };
}

function blocksOf(message: SimMessage): Json {
  switch (message.role) {
    case "user":
      return { role: "user", content: message.text };
    case "tool": {
      const { id: tool_use_id, text: content } = message;
      return { role: "user", content: [{ type: "tool_result", tool_use_id, content }] };
    }
    case "assistant": {
      const calls = message.calls.map(({ id, name, args }): Json => {
        return { type: "tool_use", id, name, input: JSON.parse(args) };
      });
      const { text } = message;
      return {
        role: "assistant",
        content: text === "" && calls.length > 0 ? calls : [{ type: "text", text }, ...calls],
      };
    }
  }
}
