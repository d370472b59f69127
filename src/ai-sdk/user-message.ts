/**
 * What a user's message of `useChat` says: its text, and the files that are in it.
 */
import type { UIMessage } from "ai";
import { HoldfastError } from "../protocol/errors.ts";
import type { Message } from "../live/index.ts";

export function spokenIn({ parts }: UIMessage): Message {
  const text = parts
    .filter((part) => part.type === "text")
    .map((part) => part.text)
    .join("\n\n");
  const attachments = parts
    .filter((part) => part.type === "file")
    .map(({ mediaType, filename = "", url }) => ({ mediaType, fileName: filename, bytes: bytesIn(url) }));
  return { text, attachments };
}

/** `useChat` reads files into `data:` addresses. */
function bytesIn(url: string): Uint8Array {
  const [, base64, data] = /^data:[^,]*?(;base64)?,(.*)$/s.exec(url) ?? [];
  if (data === undefined)
    throw new HoldfastError("invalid_argument", "a file of a message is given as a data: address");
  const text = base64 === undefined ? decodeURIComponent(data) : atob(data);
  return base64 === undefined
    ? new TextEncoder().encode(text)
    : Uint8Array.from(text, (char) => char.charCodeAt(0));
}
