/**
 * What every call of a client says in its headers, and how its frames are addressed.
 */
import type { ClientFrame } from "../../protocol/frames.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { ClientMeta } from "../transport.ts";
import { encodeBase64Url } from "./base64.ts";
import { CONNECT_PROTOCOL_VERSION, HEADERS } from "./calls.ts";

/** The largest frame of a server. */
export const SERVER_FRAME_BYTES_MAX = LIMITS.eventBytesMax + LIMITS.frameOverheadBytesMax;

export function callHeaders(meta: ClientMeta, eventId: number | undefined): Record<string, string> {
  const headers: Record<string, string> = {
    [HEADERS.protocolVersion]: CONNECT_PROTOCOL_VERSION,
    [HEADERS.idempotencyKey]: meta.idempotencyKey,
    [HEADERS.streamKey]: encodeBase64Url(meta.streamKey),
    ...conversationHeaders(meta),
    ...credentialHeaders(meta.credentials),
  };
  if (eventId !== undefined) headers[HEADERS.eventId] = String(eventId);
  return headers;
}

function conversationHeaders({ conversation }: ClientMeta): Record<string, string> {
  if (conversation === undefined) return {};
  const { key, keepMs } = conversation;
  return {
    [HEADERS.conversationKey]: encodeBase64Url(key),
    [HEADERS.conversationKeep]: String(Math.ceil(keepMs / 1_000)),
  };
}

export function credentialHeaders(credentials: string | undefined): Record<string, string> {
  return credentials === undefined ? {} : { authorization: `Bearer ${credentials}` };
}

/** Only these two must name their stream; the others mean the connection's. */
export function frameKey(frame: ClientFrame, meta: ClientMeta): string {
  return frame.kind === "attach" || frame.kind === "abort" ? meta.idempotencyKey : "";
}
