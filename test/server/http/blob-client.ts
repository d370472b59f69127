/**
 * BlobService by hand: envelopes in, envelopes out, so that a test can say what no client would.
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { create, fromBinary, toBinary } from "../../../src/protocol/message.ts";
import {
  BlobHeaderSchema,
  type ErrorCode,
  GetRequestSchema,
  GetResponseSchema,
  PutRequestSchema,
  PutResponseSchema,
} from "../../../src/protocol/index.ts";
import { nodeSealing } from "../../../src/sealing/node.ts";
import { memoryTransport } from "../../../src/transport/index.ts";
import { encodeBase64Url } from "../../../src/transport/connect/base64.ts";
import { EnvelopeParser, envelopes } from "../../../src/transport/connect/envelopes.ts";
import { readEndOfStream } from "../../../src/transport/connect/errors.ts";
import { Client } from "../../../src/client/index.ts";
import { ALICE_KEY, ask, bearer, type HttpRig, type Version } from "./rig.ts";

const HOME_KEY = new Uint8Array(32).fill(7);
export const PIECE_BYTES = 256 * 1024;

export interface Owner {
  readonly apiKey: string;
  readonly idempotencyKey: string;
  readonly streamKey: Uint8Array;
}

/** Opens a stream, so that there is something for blobs to belong to. */
export async function openStream(rig: HttpRig, idempotencyKey: string): Promise<Owner> {
  const { connect } = memoryTransport(rig.server.accept, { principalOf: () => "alice" });
  const sealing = nodeSealing();
  const client = new Client({ connect, sealing, homeKey: HOME_KEY });
  const stream = await client.open({ idempotencyKey });
  await stream.send(new Uint8Array([1]));
  for await (const event of stream.events) {
    assert.ok(event);
    break;
  }
  await client.close();
  return { apiKey: ALICE_KEY, idempotencyKey, streamKey: sealing.deriveStreamKey(HOME_KEY, idempotencyKey) };
}

export const idOf = (bytes: Uint8Array): Buffer => createHash("sha256").update(bytes).digest();

export function headerPart(owner: Owner, blobId: Uint8Array, sizeBytes: number): Uint8Array {
  const { idempotencyKey } = owner;
  const value = create(BlobHeaderSchema, { blobId, sizeBytes, idempotencyKey });
  return toBinary(PutRequestSchema, create(PutRequestSchema, { part: { case: "header", value } }));
}

export function dataPart(value: Uint8Array): Uint8Array {
  return toBinary(PutRequestSchema, create(PutRequestSchema, { part: { case: "data", value } }));
}

/** A whole upload as it should be. */
export function uploadOf(owner: Owner, bytes: Uint8Array): Uint8Array[] {
  const parts = [headerPart(owner, idOf(bytes), bytes.length)];
  for (let at = 0; at < bytes.length; at += PIECE_BYTES)
    parts.push(dataPart(bytes.subarray(at, at + PIECE_BYTES)));
  return parts;
}

export function blobHeaders(owner: Owner): Record<string, string> {
  return {
    ...bearer(owner.apiKey),
    "content-type": "application/connect+proto",
    "x-idempotency-key": owner.idempotencyKey,
    "x-idempotent-encryption-key": encodeBase64Url(owner.streamKey),
  };
}

/** The messages of a streaming answer, and its error. */
export function readAnswer(body: Uint8Array): { messages: Uint8Array[]; error: ErrorCode | undefined } {
  const parser = new EnvelopeParser(2 * PIECE_BYTES);
  parser.push(body);
  const messages: Uint8Array[] = [];
  for (let next = parser.next(); next !== undefined; next = parser.next()) {
    if (next.isEnd) return { messages, error: readEndOfStream(next.message)?.code };
    messages.push(next.message);
  }
  assert.fail("a streaming answer has an end");
}

export async function putParts(
  rig: HttpRig,
  version: Version,
  owner: Owner,
  parts: readonly Uint8Array[],
): Promise<{ existed: boolean | undefined; error: ErrorCode | undefined }> {
  const answer = await ask(rig, version, {
    method: "POST",
    path: "/holdfast.v1.BlobService/Put",
    headers: blobHeaders(owner),
    body: envelopes(parts),
  });
  assert.equal(answer.status, 200);
  const { messages, error } = readAnswer(answer.body);
  const [message] = messages;
  const existed = message === undefined ? undefined : fromBinary(PutResponseSchema, message).existed;
  return { existed, error };
}

export async function getBlob(
  rig: HttpRig,
  version: Version,
  owner: Owner,
  blobId: Uint8Array,
): Promise<{ bytes: Buffer; pieceSizes: number[]; error: ErrorCode | undefined }> {
  const request = create(GetRequestSchema, { idempotencyKey: owner.idempotencyKey, blobId });
  const answer = await ask(rig, version, {
    method: "POST",
    path: "/holdfast.v1.BlobService/Get",
    headers: blobHeaders(owner),
    body: envelopes([toBinary(GetRequestSchema, request)]),
  });
  assert.equal(answer.status, 200);
  const { messages, error } = readAnswer(answer.body);
  const [first, ...rest] = messages.map((message) => fromBinary(GetResponseSchema, message).part);
  const pieces = rest.map((part) => {
    assert.ok(part.case === "data");
    return part.value;
  });
  const bytes = Buffer.concat(pieces);
  if (first !== undefined) {
    assert.ok(first.case === "header");
    assert.deepEqual(Buffer.from(first.value.blobId), Buffer.from(blobId));
    assert.equal(first.value.sizeBytes, bytes.length);
  }
  return { bytes, pieceSizes: pieces.map((piece) => piece.length), error };
}
