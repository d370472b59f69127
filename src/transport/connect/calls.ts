/**
 * The names that client and server agree on: paths and headers.
 */
export const STREAM_SERVICE_PATH = "/holdfast.v1.StreamService/";
export const BLOB_SERVICE_PATH = "/holdfast.v1.BlobService/";

/** One message of a transfer holds so much of a blob at most. */
export const BLOB_PIECE_BYTES_MAX = 256 * 1024;

const METHODS = ["Stream", "Attach", "Append", "Listen"] as const;
export type Method = (typeof METHODS)[number];

export const HEADERS = Object.freeze({
  idempotencyKey: "x-idempotency-key",
  eventId: "x-idempotency-event-id",
  streamKey: "x-idempotent-encryption-key",
  conversationKey: "x-holdfast-conversation-key",
  conversationKeep: "x-holdfast-conversation-keep",
  connectionTag: "x-holdfast-connection",
  protocolVersion: "connect-protocol-version",
} as const);

export const CONNECT_PROTOCOL_VERSION = "1";

/** Undefined when it is no path of ours. */
export function methodOf(path: string): Method | undefined {
  if (!path.startsWith(STREAM_SERVICE_PATH)) return undefined;
  const name = path.slice(STREAM_SERVICE_PATH.length);
  return METHODS.find((method) => method === name);
}
