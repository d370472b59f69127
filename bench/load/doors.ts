/**
 * The other doors of Holdfast's gateway, as a client needs them that only measures: where each is, how a question is put, and what its events bring.
 */
import { isRecord } from "../harness/numbers.ts";

export type Door = "chat" | "responses" | "messages";

export const PATHS: Readonly<Record<Door, string>> = {
  chat: "/v1/chat/completions",
  responses: "/v1/responses",
  messages: "/v1/messages",
};

export function doorOf(name: unknown): Door {
  return name === "responses" || name === "messages" ? name : "chat";
}

/** As bytes, so that making them is not part of what is measured. */
export function questionBy(door: Door, model: string, text: string): Buffer {
  const messages = [{ role: "user", content: text }];
  const asked = {
    chat: { messages },
    responses: { input: text },
    messages: { max_tokens: 32_000, messages },
  };
  return Buffer.from(JSON.stringify({ model, stream: true, ...asked[door] }));
}

interface DoorEvent {
  readonly text?: string;
  /** By chat's word. */
  readonly finish?: string;
  readonly isLast: boolean;
}

export function eventOf(event: Readonly<Record<string, unknown>>): DoorEvent {
  const { type, delta } = event;
  switch (type) {
    case "response.output_text.delta":
      return { text: String(delta), isLast: false };
    case "response.completed":
      return { finish: "stop", isLast: true };
    case "content_block_delta":
      return { text: isRecord(delta) ? String(delta["text"]) : "", isLast: false };
    case "message_delta":
      return {
        finish: isRecord(delta) && delta["stop_reason"] === "end_turn" ? "stop" : "other",
        isLast: false,
      };
    default:
      return { isLast: type === "message_stop" };
  }
}
