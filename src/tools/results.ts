/**
 * Replies to execs as bytes: the one place where a tool's outcome becomes a message.
 *
 * A reply repeats the request's ids. Whatever is larger than the inline limit is put to the stream's blobs
 * first, so that a reply always fits a chunk and the logs stay small. Runs in browsers too.
 */
import type { MessageInitShape } from "../protocol/message.ts";
import type { ToolRun } from "../client/tools.ts";
import type { ExecRef } from "../protocol/exec-codec.ts";
import type { Content, ExecClientMessageSchema } from "../protocol/messages.ts";
import { blobIn, bytesIn, type ContentInit, fitsInline, inBlob, inline } from "../turn/content.ts";
import { encodeClient } from "../turn/messages.ts";

/** What a function of a program answers: text, or more. */
export type FunctionResult =
  | string
  | { readonly text?: string; readonly json?: unknown; readonly isError?: boolean };

export type ResultMessage = NonNullable<MessageInitShape<typeof ExecClientMessageSchema>["message"]>;

export function writeExecResult(exec: ExecRef, message: ResultMessage): Uint8Array {
  const { id, execId, toolCallId } = exec;
  return encodeClient({ case: "execClientMessage", value: { id, execId, toolCallId, message } });
}

export async function contentOf(bytes: Uint8Array, run: ToolRun): Promise<ContentInit> {
  const content = fitsInline(bytes) ? inline(bytes) : inBlob(await run.upload(bytes));
  return { ...content, sizeBytes: bytes.length };
}

/** Undefined for no value. */
export async function jsonContentOf(value: unknown, run: ToolRun): Promise<ContentInit | undefined> {
  return value === undefined ? undefined : contentOf(new TextEncoder().encode(JSON.stringify(value)), run);
}

export async function bytesOf(
  content: Content | undefined,
  run: Pick<ToolRun, "download">,
): Promise<Uint8Array> {
  const blobId = blobIn(content);
  const bytes = blobId === undefined ? bytesIn(content) : await run.download(blobId);
  if (bytes === undefined) throw Object.assign(new Error("the request has no content"), { code: "EINVAL" });
  return bytes;
}
