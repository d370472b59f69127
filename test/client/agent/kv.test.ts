import assert from "node:assert/strict";
import { test } from "node:test";
import { create, fromBinary, type MessageInitShape } from "../../../src/protocol/message.ts";
import { bytesOfHex } from "../../../src/protocol/bytes.ts";
import {
  answerKv,
  answerTo,
  blobIdOf,
  type ClientBlobStore,
  type KvStream,
  memoryBlobStore,
} from "../../../src/client/index.ts";
import {
  AgentClientMessageSchema,
  HoldfastError,
  type KvClientMessage,
  type KvServerMessage,
  KvServerMessageSchema,
} from "../../../src/protocol/index.ts";

const bytes = (length: number): Uint8Array => new Uint8Array(length).fill(length & 0xff);
const idOf = (blob: Uint8Array): Uint8Array => bytesOfHex(blobIdOf(blob));

type Request = NonNullable<MessageInitShape<typeof KvServerMessageSchema>["message"]>;
const request = (message: Request, id = 1): KvServerMessage => create(KvServerMessageSchema, { id, message });
const get = (blobId: Uint8Array): KvServerMessage => request({ case: "getBlobArgs", value: { blobId } });
const set = (blobId: Uint8Array, blobData?: Uint8Array): KvServerMessage =>
  request({ case: "setBlobArgs", value: blobData === undefined ? { blobId } : { blobId, blobData } });

/** A stream whose blobs lie in a map, and that remembers what was said. */
class Said implements KvStream {
  readonly chunks: KvClientMessage[] = [];
  readonly remote = new Map<string, Uint8Array>();

  async send(body: Uint8Array): Promise<number> {
    const { message } = fromBinary(AgentClientMessageSchema, body);
    if (message.case === "kvClientMessage") this.chunks.push(message.value);
    return this.chunks.length;
  }

  async putBlob(blob: Uint8Array): Promise<string> {
    this.remote.set(blobIdOf(blob), blob);
    return blobIdOf(blob);
  }

  async getBlob(id: string): Promise<Uint8Array> {
    const found = this.remote.get(id);
    if (found === undefined) throw new HoldfastError("not_found", "this stream has no such blob");
    return found;
  }
}

const answer = async (message: KvServerMessage, blobs: ClientBlobStore, stream = new Said()) =>
  (await answerTo(stream, blobs, message)).message.message;

test("E5: a blob is kept only under its own hash, and only then acknowledged", async () => {
  const blobs = memoryBlobStore();
  const right = await answer(set(idOf(bytes(5)), bytes(5)), blobs);
  assert.deepEqual(
    [right.case, right.case === "setBlobResult" && right.value.error],
    ["setBlobResult", undefined],
  );
  assert.deepEqual(await blobs.get(blobIdOf(bytes(5))), bytes(5));
  const wrong = await answer(set(idOf(bytes(5)), bytes(6)), blobs);
  assert.match(wrong.case === "setBlobResult" ? (wrong.value.error ?? "") : "", /SHA-256/);
  assert.equal(await blobs.get(blobIdOf(bytes(6))), undefined);
});

test("a missing blob is said to be missing; an empty one is there and empty", async () => {
  const blobs = memoryBlobStore();
  const missing = await answer(get(idOf(bytes(3))), blobs);
  assert.ok(missing.case === "getBlobResult");
  assert.deepEqual(
    [missing.value.notFound, missing.value.blobData, missing.value.uploaded],
    [true, undefined, false],
  );
  await blobs.put(blobIdOf(bytes(0)), bytes(0));
  const empty = await answer(get(idOf(bytes(0))), blobs);
  assert.ok(empty.case === "getBlobResult");
  assert.deepEqual([empty.value.notFound, empty.value.blobData?.length], [false, 0]);
});

test("E8: up to 64 KiB a blob travels in the log, one byte more by BlobService, both ways", async () => {
  const stream = new Said();
  for (const [length, isInline] of [
    [65_536, true],
    [65_537, false],
  ] as const) {
    const blobs = memoryBlobStore();
    const blob = bytes(length);
    await blobs.put(blobIdOf(blob), blob);
    const got = await answer(get(idOf(blob)), blobs, stream);
    assert.ok(got.case === "getBlobResult");
    assert.deepEqual(
      [got.value.blobData?.length, got.value.uploaded],
      [isInline ? length : undefined, !isInline],
    );
    assert.equal(stream.remote.has(blobIdOf(blob)), !isInline);
  }
  const fresh = memoryBlobStore();
  const large = await answer(set(idOf(bytes(65_537))), fresh, stream);
  assert.ok(large.case === "setBlobResult" && large.value.error === undefined);
  assert.equal((await fresh.get(blobIdOf(bytes(65_537))))?.length, 65_537);
  const gone = await answer(set(idOf(bytes(9))), fresh, stream);
  assert.ok(gone.case === "setBlobResult" && gone.value.error !== undefined);
});

test("a request of an unknown kind is answered, and a disk that fails is an answer too", async () => {
  const unknown = await answer(create(KvServerMessageSchema, { id: 7 }), memoryBlobStore());
  assert.equal(unknown.case, "unsupported");
  const failing: ClientBlobStore = {
    ...memoryBlobStore(),
    get: () => Promise.reject(new Error("no disk")),
    put: () => Promise.reject(new Error("disk full")),
  };
  const got = await answer(get(idOf(bytes(1))), failing);
  assert.equal(got.case === "getBlobResult" && got.value.error, "no disk");
  const put = await answer(set(idOf(bytes(1)), bytes(1)), failing);
  assert.equal(put.case === "setBlobResult" && put.value.error, "disk full");
});

test("B3: a request that is delivered again is answered again, in the same way", async () => {
  const stream = new Said();
  const blobs = memoryBlobStore();
  async function* twice() {
    for (const eventId of [1, 2]) yield { eventId, message: set(idOf(bytes(4)), bytes(4)) };
    for (const eventId of [3, 4]) yield { eventId, message: get(idOf(bytes(4))) };
  }
  await answerKv(stream, twice(), blobs);
  const [first, second, third, fourth] = stream.chunks;
  assert.deepEqual([second, fourth], [first, third]);
  assert.equal(stream.chunks.length, 4);
});

test("a stream that was left answers nothing: the request comes again", async () => {
  const left = Object.assign(new Said(), {
    getBlob: () => Promise.reject(new HoldfastError("stream_ended", "left")),
  });
  await assert.rejects(answerTo(left, memoryBlobStore(), set(idOf(bytes(70_000)))), { code: "stream_ended" });
});
