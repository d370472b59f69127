/**
 * `BlobService` as a client speaks it, over whatever carries Connect's calls: what a Put and a Get are made of, and what their
 * answers must look like.
 *
 * A lying server costs no more memory than the bytes it really sends, and never more than one blob (E8).
 */
import { blobIdBytes } from "../../protocol/blob-id.ts";
import { isSameBytes, joinedBytes } from "../../protocol/bytes.ts";
import { encoded } from "../../protocol/message.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { BLOB_SHAPE, checkFieldCount } from "../../protocol/field-count.ts";
import { checkSize, invalidFrame } from "../../protocol/frame-check.ts";
import { parse } from "../../protocol/frame-codec.ts";
import {
  ForgetRequestSchema,
  ForgetResponseSchema,
  GetRequestSchema,
  GetResponseSchema,
  PutRequestSchema,
  PutResponseSchema,
} from "../../protocol/gen/holdfast/v1/blob.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { BlobCalls, ClientMeta } from "../transport.ts";
import { BLOB_PIECE_BYTES_MAX } from "./calls.ts";

export interface BlobRequest {
  readonly method: "Put" | "Get" | "Forget";
  readonly meta: ClientMeta;
  /** The messages of the request, encoded one at a time as they are sent. */
  readonly messages: Iterable<Uint8Array>;
  /** How long the server may take to its first message, and then to each next one. */
  readonly patienceMs: number;
  readonly signal: AbortSignal;
}

/** Resolves when the server ended the call in order; rejects with a HoldfastError, or with the signal's reason. */
export type BlobCall = (request: BlobRequest, received: (message: Uint8Array) => void) => Promise<void>;

/** A little more than a server waits for a client that does nothing. */
const PATIENCE_MS = 30_000;
/** The slowest upload that is waited for: 2 Mbit/s, as the server has it. */
const BYTES_PER_MS_MIN = 250;

export function blobCallsOver(call: BlobCall): BlobCalls {
  return {
    put: async (meta, id, bytes, signal) => {
      // Here already: a server that refuses it by its header might hang up before a slow sender reads why.
      checkSize(bytes.length, LIMITS.blobBytesMax, "a blob");
      const messages = putMessages(meta, blobIdBytes(id), bytes);
      const patienceMs = PATIENCE_MS + Math.ceil(bytes.length / BYTES_PER_MS_MIN);
      let isStored = false;
      await call({ method: "Put", meta, messages, patienceMs, signal }, (message) => {
        checkStored(message, id);
        isStored = true;
      });
      if (!isStored)
        throw new HoldfastError("connection_lost", "the server did not say that it has the blob");
    },
    get: async (meta, id, signal) => {
      const request = { idempotencyKey: meta.idempotencyKey, blobId: blobIdBytes(id) };
      const messages = [encoded(GetRequestSchema, request)];
      const blob = incomingBlob(id);
      await call({ method: "Get", meta, messages, patienceMs: PATIENCE_MS, signal }, (message) =>
        blob.take(message),
      );
      return blob.whole();
    },
    forget: async (meta, signal) => {
      const messages = [encoded(ForgetRequestSchema, {})];
      await call({ method: "Forget", meta, messages, patienceMs: PATIENCE_MS, signal }, (message) => {
        parse(ForgetResponseSchema, message);
      });
    },
  };
}

function* putMessages(meta: ClientMeta, blobId: Uint8Array, bytes: Uint8Array): Generator<Uint8Array> {
  const { idempotencyKey } = meta;
  const header = { blobId, sizeBytes: bytes.length, idempotencyKey };
  yield encoded(PutRequestSchema, { part: { case: "header", value: header } });
  for (let at = 0; at < bytes.length; at += BLOB_PIECE_BYTES_MAX) {
    const value = bytes.subarray(at, at + BLOB_PIECE_BYTES_MAX);
    yield encoded(PutRequestSchema, { part: { case: "data", value } });
  }
}

function checkStored(message: Uint8Array, id: string): void {
  checkFieldCount(message, BLOB_SHAPE);
  const { blobId } = parse(PutResponseSchema, message);
  if (!isSameBytes(blobId, blobIdBytes(id))) throw invalidFrame("the server has stored another blob");
}

function incomingBlob(id: string) {
  const pieces: Uint8Array[] = [];
  let sizeBytes: number | undefined;
  let filled = 0;

  const blobId = blobIdBytes(id);
  return {
    take(message: Uint8Array): void {
      checkFieldCount(message, BLOB_SHAPE);
      const { part } = parse(GetResponseSchema, message);
      if (part.case === "header" && sizeBytes === undefined) {
        if (!isSameBytes(part.value.blobId, blobId)) throw invalidFrame("the server sends another blob");
        checkSize(part.value.sizeBytes, LIMITS.blobBytesMax, "a blob");
        sizeBytes = part.value.sizeBytes;
      } else if (part.case === "data" && sizeBytes !== undefined) {
        filled += part.value.length;
        if (filled > sizeBytes) throw invalidFrame("the blob is larger than its header says");
        pieces.push(part.value);
      } else {
        throw invalidFrame("a blob is one header and then only data");
      }
    },
    whole(): Uint8Array {
      if (sizeBytes === undefined || filled < sizeBytes) {
        throw new HoldfastError("connection_lost", "the blob is smaller than its header says");
      }
      return joinedBytes(pieces);
    },
  };
}
