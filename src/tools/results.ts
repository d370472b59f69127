/**
 * Replies to execs as bytes: the one place where a tool's outcome becomes a message.
 *
 * A reply repeats the request's ids. Whatever is larger than the inline limit is put to the stream's blobs
 * first, so that a reply always fits a chunk and the logs stay small.
 */
import { create, toBinary } from "@bufbuild/protobuf";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ToolRun } from "../client/tools.ts";
import type { ExecRef } from "../protocol/exec-codec.ts";
import { LIMITS } from "../protocol/limits.ts";
import { AgentClientMessageSchema, type Content, type ContentSchema } from "../protocol/messages.ts";
import type { ExecClientMessageSchema } from "../protocol/messages.ts";
import { fault } from "./faults.ts";

export type ResultMessage = NonNullable<MessageInitShape<typeof ExecClientMessageSchema>["message"]>;
export type ContentInit = MessageInitShape<typeof ContentSchema>;

export function writeExecResult(exec: ExecRef, message: ResultMessage): Uint8Array {
  const { id, execId, toolCallId } = exec;
  const value = { id, execId, toolCallId, message };
  const reply = create(AgentClientMessageSchema, { message: { case: "execClientMessage", value } });
  return toBinary(AgentClientMessageSchema, reply);
}

export async function contentOf(bytes: Uint8Array, run: ToolRun): Promise<ContentInit> {
  if (bytes.length <= LIMITS.inlineBytesMax) {
    return { content: { case: "inline", value: bytes }, sizeBytes: bytes.length };
  }
  const blobId = await run.upload(bytes);
  return { content: { case: "blobId", value: Buffer.from(blobId, "hex") }, sizeBytes: bytes.length };
}

export async function bytesOf(
  content: Content | undefined,
  run: Pick<ToolRun, "download">,
): Promise<Uint8Array> {
  switch (content?.content.case) {
    case "inline":
      return content.content.value;
    case "blobId":
      return run.download(Buffer.from(content.content.value).toString("hex"));
    case undefined:
      throw fault("EINVAL", "the request has no content");
  }
}
