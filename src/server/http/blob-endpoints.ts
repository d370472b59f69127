/**
 * `BlobService`: Put, Get and Forget, in Connect's format.
 *
 * A transfer is a header and pieces; a Put is answered once the blob is durable. The order of checks is that of streams:
 * nothing is said about a stream, and no memory is given, before its stream key has been checked (E1, E2).
 */
import { create, type Schema, fromBinary, type MessageShape, toBinary } from "../../protocol/message.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { BLOB_SHAPE, checkFieldCount } from "../../protocol/field-count.ts";
import { checkSize, invalidFrame } from "../../protocol/frame-check.ts";
import {
  type BlobHeader,
  BlobHeaderSchema,
  ForgetRequestSchema,
  ForgetResponseSchema,
  GetRequestSchema,
  type GetResponse,
  GetResponseSchema,
  type PutRequest,
  PutRequestSchema,
  PutResponseSchema,
} from "../../protocol/gen/holdfast/v1/blob.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { BLOB_PIECE_BYTES_MAX, HEADERS } from "../../transport/connect/calls.ts";
import { envelopes } from "../../transport/connect/envelopes.ts";
import { contentType, type Format, formatOf } from "../../transport/connect/formats.ts";
import { fromWireFormat, toWireFormat } from "../../transport/node/wire-format.ts";
import { readMeta } from "../../transport/node/call-head.ts";
import type { Exchange } from "../../transport/node/exchange.ts";
import type { AcceptedMeta, Caller } from "../../transport/transport.ts";
import { countRefusal, type ServerCounters } from "../counters.ts";
import type { StreamBlobs } from "../stream-blobs.ts";
import type { BlobLimits } from "./blob-limits.ts";
import type { ByteBudget } from "./byte-budget.ts";
import type { HttpCounters } from "./http-counters.ts";
import { newTransfer, type Transfer } from "./transfer.ts";
import { hexOf } from "../../protocol/bytes.ts";

interface BlobEndpointsOptions {
  readonly blobs: StreamBlobs;
  readonly memory: ByteBudget;
  readonly limits: BlobLimits;
  readonly http: HttpCounters;
  readonly counters: ServerCounters;
  readonly onBug: (bug: unknown) => void;
}

type BlobCall = (exchange: Exchange, caller: Caller) => void;

interface BlobEndpoints {
  readonly blob_put: BlobCall;
  readonly blob_get: BlobCall;
  readonly blob_forget: BlobCall;
}

/** One call: who makes it, for which stream, in which format. */
interface Asked {
  readonly transfer: Transfer;
  readonly format: Format;
  readonly meta: AcceptedMeta;
}

/** A piece, its field's head, and in JSON a third more. */
const MESSAGE_BYTES_MAX = 2 * BLOB_PIECE_BYTES_MAX;
const BLOB_ID_BYTES = 32;

export function blobEndpoints(options: BlobEndpointsOptions): BlobEndpoints {
  const { blobs, memory, limits, http } = options;

  async function put(asked: Asked): Promise<void> {
    const { meta, transfer, format } = asked;
    const header = await readHeader(asked);
    await blobs.check(meta);
    const reservation = await memory.reserve(meta.principal, header.sizeBytes);
    try {
      const bytes = await readPieces(asked, header.sizeBytes);
      const { existed } = await blobs.put(meta, hexOf(header.blobId), bytes);
      http.blobBytesIn += bytes.length;
      const answer = toBinary(
        PutResponseSchema,
        create(PutResponseSchema, { blobId: header.blobId, existed }),
      );
      await transfer.write(envelopes([toWireFormat(format, PutResponseSchema, answer)]));
    } finally {
      reservation.release();
    }
  }

  async function get({ meta, transfer, format }: Asked): Promise<void> {
    const request = await readOne(transfer, format, GetRequestSchema);
    checkStream(request.idempotencyKey, meta);
    checkBlobId(request.blobId);
    await blobs.check(meta);
    const reservation = await memory.reserve(meta.principal, LIMITS.blobBytesMax);
    try {
      const bytes = await blobs.get(meta, hexOf(request.blobId));
      reservation.shrinkTo(bytes.length);
      const header = { blobId: request.blobId, sizeBytes: bytes.length };
      await transfer.write(encodePart(format, { case: "header", value: create(BlobHeaderSchema, header) }));
      for (let at = 0; at < bytes.length; at += BLOB_PIECE_BYTES_MAX) {
        const value = bytes.subarray(at, at + BLOB_PIECE_BYTES_MAX);
        await transfer.write(encodePart(format, { case: "data", value }));
        http.blobBytesOut += value.length;
      }
    } finally {
      reservation.release();
    }
  }

  async function forget({ meta, transfer, format }: Asked): Promise<void> {
    await readOne(transfer, format, ForgetRequestSchema);
    const blobCount = await blobs.forget(meta);
    const answer = toBinary(ForgetResponseSchema, create(ForgetResponseSchema, { blobCount }));
    await transfer.write(envelopes([toWireFormat(format, ForgetResponseSchema, answer)]));
  }

  function begin(exchange: Exchange, caller: Caller, run: (asked: Asked) => Promise<void>): void {
    const format = formatOf(exchange.header("content-type"), "stream") ?? "proto";
    const type = contentType(format, "stream");
    const { stallMs, totalMs } = limits;
    const bounds = { messageBytesMax: MESSAGE_BYTES_MAX, stallMs, totalMs };
    const transfer = newTransfer({ exchange, contentType: type, ...bounds });
    const work = async (): Promise<void> => run({ transfer, format, meta: readMeta(exchange, caller) });
    work()
      .then(
        () => transfer.finish(),
        (cause: unknown) => transfer.finish(verdictOf(cause, options)),
      )
      .catch(options.onBug);
  }

  return {
    blob_put: (exchange, caller) => begin(exchange, caller, put),
    blob_get: (exchange, caller) => begin(exchange, caller, get),
    blob_forget: (exchange, caller) => begin(exchange, caller, forget),
  };
}

/** The error for the client. Damage in the store is no verdict on the client's request, and a bug none on anything. */
function verdictOf(cause: unknown, { counters, onBug }: BlobEndpointsOptions): HoldfastError {
  if (!(cause instanceof HoldfastError)) onBug(cause);
  const error = HoldfastError.from(cause, "internal", "this server made a mistake; try again");
  countRefusal(counters, error.code);
  return error;
}

async function readHeader({ meta, transfer, format }: Asked): Promise<BlobHeader> {
  const message = await transfer.read();
  const part = message === undefined ? undefined : decodePart(format, message);
  if (part?.case !== "header") throw invalidFrame("a blob begins with its header");
  const header = part.value;
  checkStream(header.idempotencyKey, meta);
  checkBlobId(header.blobId);
  checkSize(header.sizeBytes, LIMITS.blobBytesMax, "a blob");
  return header;
}

async function readPieces({ transfer, format }: Asked, sizeBytes: number): Promise<Uint8Array> {
  // Not from the pool, and not filled: the memory is taken when the bytes come.
  const bytes = Buffer.allocUnsafeSlow(sizeBytes);
  let filled = 0;
  for (;;) {
    const message = await transfer.read();
    if (message === undefined) break;
    const part = decodePart(format, message);
    if (part?.case !== "data") throw invalidFrame("after its header a blob has only data");
    const piece = part.value;
    checkSize(piece.length, BLOB_PIECE_BYTES_MAX, "a piece of a blob");
    if (filled + piece.length > sizeBytes) throw invalidFrame("the blob is larger than its header says");
    bytes.set(piece, filled);
    filled += piece.length;
  }
  if (filled < sizeBytes) throw invalidFrame("the blob is smaller than its header says");
  return bytes;
}

async function readOne<Of extends Schema>(
  transfer: Transfer,
  format: Format,
  schema: Of,
): Promise<MessageShape<Of>> {
  const message = await transfer.read();
  if (message === undefined) throw invalidFrame("the request is empty");
  const binary = fromWireFormat(format, schema, message);
  if ((await transfer.read()) !== undefined) throw invalidFrame("this request is one message");
  checkFieldCount(binary, BLOB_SHAPE);
  return decoded(() => fromBinary(schema, binary));
}

function decodePart(format: Format, message: Uint8Array): PutRequest["part"] {
  const binary = fromWireFormat(format, PutRequestSchema, message);
  checkFieldCount(binary, BLOB_SHAPE);
  return decoded(() => fromBinary(PutRequestSchema, binary)).part;
}

function encodePart(format: Format, part: GetResponse["part"]): Uint8Array {
  const message = toBinary(GetResponseSchema, create(GetResponseSchema, { part }));
  return envelopes([toWireFormat(format, GetResponseSchema, message)]);
}

function decoded<Result>(decode: () => Result): Result {
  try {
    return decode();
  } catch (cause) {
    throw invalidFrame("a message cannot be decoded", cause);
  }
}

function checkStream(idempotencyKey: string, meta: AcceptedMeta): void {
  if (idempotencyKey !== meta.idempotencyKey) {
    throw invalidFrame(`idempotency_key is not that of the header ${HEADERS.idempotencyKey}`);
  }
}

function checkBlobId(blobId: Uint8Array): void {
  if (blobId.length !== BLOB_ID_BYTES) throw invalidFrame(`a blob id has ${BLOB_ID_BYTES} bytes`);
}
