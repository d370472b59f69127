/**
 * The body of a chat completion as OpenAI means it, where the SDK's has another form.
 *
 * The SDK puts what it does not know beside a message or a part. `detail` belongs into the image, and `cache_control` to a part
 * of text, which a bare string has not.
 */
import { isJsonObject } from "../../protocol/chat-message.ts";

/** Given to the SDK, which calls it with the body that it would send. */
export function chatBody(body: Record<string, unknown>): Record<string, unknown> {
  const { messages } = body;
  return Array.isArray(messages) ? { ...body, messages: messages.map(chatMessage) } : body;
}

function chatMessage(message: unknown): unknown {
  if (!isJsonObject(message)) return message;
  const { content, cache_control: mark, ...rest } = message;
  if (Array.isArray(content)) return { ...message, content: content.map(contentPart) };
  if (mark === undefined || typeof content !== "string") return message;
  return { ...rest, content: [{ type: "text", text: content, cache_control: mark }] };
}

function contentPart(part: unknown): unknown {
  if (!isJsonObject(part)) return part;
  const { image_url: image, detail, ...rest } = part;
  if (detail === undefined || !isJsonObject(image)) return part;
  return { ...rest, image_url: { ...image, detail } };
}
