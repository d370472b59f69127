/**
 * The receiving half that many connections share: which listener, and whose frames.
 *
 * Written by hand, because every event of a page goes through it: frames are given encoded (an event is
 * encoded once for all its readers) and are copied once, into a message whose size is known beforehand.
 */
import { encoded } from "./message.ts";
import { checkName, checkSize } from "./frame-check.ts";
import { parse, serverFrameOf } from "./frame-codec.ts";
import type { ServerFrame } from "./frames.ts";
import { ListenRequestSchema, ListenResponseSchema } from "./gen/holdfast/v1/stream.ts";
import { FieldWriter, fieldSize } from "./hot-frames.ts";
import { LIMITS } from "./limits.ts";

/** What came for one connection of a listener; without a tag it is a sign of life. */
export interface Heard {
  readonly connectionTag: string;
  readonly frames: readonly ServerFrame[];
  /** Nothing more comes for this connection. */
  readonly closed: boolean;
}

/** One write of a server: at most what it may have waiting for a reader, and the heads of its frames. */
export const HEARD_BYTES_MAX = LIMITS.sendQueueBytesMax + LIMITS.frameOverheadBytesMax;

export function encodeListen(listener: string): Uint8Array {
  checkName(listener, LIMITS.journalIdBytesMax, "listener", true);
  return encoded(ListenRequestSchema, { listener });
}

export function decodeListen(bytes: Uint8Array): string {
  checkSize(bytes.byteLength, LIMITS.frameOverheadBytesMax, "the request");
  const { listener } = parse(ListenRequestSchema, bytes);
  checkName(listener, LIMITS.journalIdBytesMax, "listener", true);
  return listener;
}

/** `frames` are encoded StreamResponses; the tag has been checked when the connection began. */
export function encodeHeard(
  connectionTag: string,
  frames: readonly Uint8Array[],
  closed: boolean,
): Uint8Array {
  const tagSize = connectionTag === "" ? 0 : fieldSize(connectionTag.length);
  let framesSize = 0;
  for (const frame of frames) framesSize += fieldSize(frame.byteLength);
  const out = new FieldWriter(tagSize + framesSize + (closed ? 2 : 0));
  if (tagSize > 0) out.ascii(1, connectionTag);
  for (const frame of frames) out.body(2, frame);
  if (closed) out.uint32(3, 1);
  return out.bytes;
}

export function decodeHeard(bytes: Uint8Array): Heard {
  checkSize(bytes.byteLength, HEARD_BYTES_MAX, "the message");
  const { connectionTag, frames, closed } = parse(ListenResponseSchema, bytes);
  checkName(connectionTag, LIMITS.journalIdBytesMax, "connection_tag", frames.length > 0 || closed);
  return { connectionTag, frames: frames.map(serverFrameOf), closed };
}
