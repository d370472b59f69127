/**
 * Answers the server's requests for blobs, and to keep blobs.
 *
 * Every request gets one answer, also the ones that this client does not know; one that is delivered again is
 * answered again in the same way. For a blob that is not there the answer is `missing`, never an empty blob.
 * Ids are checked both ways (E5), and a set is answered only when the blob is durable.
 */
import { firstChars } from "../../protocol/characters.ts";
import { given } from "../../protocol/given.ts";
import { create, type MessageInitShape } from "../../protocol/message.ts";
import { HoldfastError, messageOf } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import {
  type KvClientMessage,
  KvClientMessageSchema,
  type KvServerMessage,
  type SetBlobArgs,
} from "../../protocol/messages.ts";
import type { ClientStream } from "../stream.ts";
import type { ClientBlobStore } from "./blob-store.ts";
import type { Heard } from "./split-stream.ts";
import { hexOf } from "../../protocol/bytes.ts";
import { encodeClient } from "../../turn/messages.ts";

/** What answering takes of a stream. */
export type KvStream = Pick<ClientStream, "send" | "putBlob" | "getBlob">;

type Answer = NonNullable<MessageInitShape<typeof KvClientMessageSchema>["message"]>;

export interface KvAnswer {
  readonly message: KvClientMessage;
  /** What was set, when it was kept. */
  readonly set: { readonly id: string; readonly bytes: Uint8Array } | undefined;
}

/** Does what is asked, and says how it went. Rejects only when the stream is over for this client. */
export async function answerTo(
  stream: Pick<KvStream, "putBlob" | "getBlob">,
  blobs: ClientBlobStore,
  { id, message }: KvServerMessage,
): Promise<KvAnswer> {
  const answer = (reply: Answer, set?: KvAnswer["set"]): KvAnswer => ({
    message: create(KvClientMessageSchema, { id, message: reply }),
    set,
  });
  switch (message.case) {
    case "getBlobArgs":
      return answer({ case: "getBlobResult", value: await found(stream, blobs, message.value.blobId) });
    case "setBlobArgs": {
      const { error, set } = await keep(stream, blobs, message.value);
      return answer({ case: "setBlobResult", value: given({ error }) }, set);
    }
    case undefined: {
      const reason = "this client does not know this kind of request";
      return answer({ case: "unsupported", value: { reason } });
    }
  }
}

/** Answers all requests of a kv sub-stream, in order, until it ends. */
export async function answerKv(
  stream: KvStream,
  requests: AsyncIterable<Heard<KvServerMessage>>,
  blobs: ClientBlobStore,
): Promise<void> {
  for await (const { message } of requests) {
    await stream.send(encodeKvAnswer((await answerTo(stream, blobs, message)).message));
  }
}

export function encodeKvAnswer(value: KvClientMessage): Uint8Array {
  return encodeClient({ case: "kvClientMessage", value });
}

type Found = Extract<Answer, { case: "getBlobResult" }>["value"];

async function found(
  stream: Pick<KvStream, "putBlob">,
  blobs: ClientBlobStore,
  blobId: Uint8Array,
): Promise<Found> {
  let blobData: Uint8Array | undefined;
  try {
    blobData = await blobs.get(hexOf(blobId));
  } catch (cause) {
    return { error: reasonOf(cause) };
  }
  if (blobData === undefined) return { notFound: true };
  if (blobData.length <= LIMITS.inlineBytesMax) return { blobData };
  try {
    await stream.putBlob(blobData);
    return { uploaded: true };
  } catch (cause) {
    return { error: ifNotOver(cause) };
  }
}

interface Kept {
  readonly error?: string;
  readonly set?: { readonly id: string; readonly bytes: Uint8Array };
}

async function keep(
  stream: Pick<KvStream, "getBlob">,
  blobs: ClientBlobStore,
  { blobId, blobData }: SetBlobArgs,
): Promise<Kept> {
  const id = hexOf(blobId);
  let bytes: Uint8Array;
  try {
    bytes = blobData ?? (await stream.getBlob(id));
  } catch (cause) {
    return { error: ifNotOver(cause) };
  }
  try {
    // It checks the id, as every store does (E5).
    await blobs.put(id, bytes);
    return { set: { id, bytes } };
  } catch (cause) {
    return { error: reasonOf(cause) };
  }
}

/** A stream that was left answers nothing: the request comes again when it is resumed. */
function ifNotOver(cause: unknown): string {
  if (cause instanceof HoldfastError && cause.code === "stream_ended") throw cause;
  return reasonOf(cause);
}

function reasonOf(cause: unknown): string {
  return firstChars(messageOf(cause), LIMITS.messageCharsMax);
}
