import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { nameText } from "../../../src/server/entries.ts";
import { ALICE_KEY, BOB_KEY, eventually, startHttp, VERSIONS } from "./rig.ts";
import {
  dataPart,
  getBlob,
  headerPart,
  idOf,
  openStream,
  PIECE_BYTES,
  putParts,
  uploadOf,
} from "./blob-client.ts";

const MIB = 1024 * 1024;

test("E5: a blob comes back as it went, in pieces of at most 256 KiB, over both versions", async (t) => {
  const rig = await startHttp(t);
  const owner = await openStream(rig, "blobs");
  for (const version of VERSIONS) {
    for (const size of [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * MIB + 7]) {
      const bytes = randomBytes(size);
      const existed = size === 0 && version === 2;
      assert.deepEqual(await putParts(rig, version, owner, uploadOf(owner, bytes)), {
        existed,
        error: undefined,
      });
      const got = await getBlob(rig, version, owner, idOf(bytes));
      assert.ok(got.bytes.equals(bytes), `${size} bytes`);
      assert.ok(got.pieceSizes.every((piece) => piece > 0 && piece <= PIECE_BYTES));
      if (size > 0) {
        const again = await putParts(rig, version, owner, uploadOf(owner, bytes));
        assert.deepEqual(again, { existed: true, error: undefined }, "a put is idempotent");
      }
    }
  }
});

test("E8: 64 MiB is the largest blob; one byte more is refused by its header", async (t) => {
  const rig = await startHttp(t);
  const owner = await openStream(rig, "large");
  const bytes = Buffer.alloc(64 * MIB, "holdfast");
  assert.deepEqual(await putParts(rig, 2, owner, uploadOf(owner, bytes)), {
    existed: false,
    error: undefined,
  });
  const got = await getBlob(rig, 1, owner, idOf(bytes));
  assert.ok(got.bytes.equals(bytes));
  const refused = await putParts(rig, 1, owner, [headerPart(owner, idOf(bytes), 64 * MIB + 1)]);
  assert.equal(refused.error, "too_large");
});

test("E8: a piece has at most 256 KiB", async (t) => {
  const rig = await startHttp(t);
  const owner = await openStream(rig, "piece");
  const bytes = randomBytes(PIECE_BYTES + 1);
  const parts = [headerPart(owner, idOf(bytes), bytes.length), dataPart(bytes)];
  for (const version of VERSIONS)
    assert.equal((await putParts(rig, version, owner, parts)).error, "too_large");
});

test("E5: what is not what its header says is refused, and nothing of it is kept", async (t) => {
  const rig = await startHttp(t);
  const owner = await openStream(rig, "lies");
  const bytes = randomBytes(1_000);
  const id = idOf(bytes);
  const header = headerPart(owner, id, 1_000);
  const wrong: Record<string, Uint8Array[]> = {
    "other bytes": [header, dataPart(randomBytes(1_000))],
    "fewer bytes": [header, dataPart(bytes.subarray(1))],
    "more bytes": [header, dataPart(bytes), dataPart(bytes)],
    "no header": [dataPart(bytes)],
    "two headers": [header, header, dataPart(bytes)],
    "an empty part": [header, new Uint8Array()],
    "no part": [],
    "a short id": [headerPart(owner, id.subarray(1), 1_000), dataPart(bytes)],
    "another stream": [headerPart({ ...owner, idempotencyKey: "other" }, id, 1_000), dataPart(bytes)],
    nonsense: [Buffer.from("nonsense")],
  };
  for (const version of VERSIONS) {
    for (const [what, parts] of Object.entries(wrong)) {
      const { existed, error } = await putParts(rig, version, owner, parts);
      assert.deepEqual([existed, error], [undefined, "invalid_frame"], what);
    }
  }
  assert.equal((await getBlob(rig, 1, owner, id)).error, "not_found");
  assert.deepEqual(await rig.blobs.listSpaces({ after: undefined, countMax: 10 }), []);
});

test("E1, E2: a wrong stream key, another principal and no stream are one not_found, for Put and Get", async (t) => {
  const rig = await startHttp(t);
  const owner = await openStream(rig, "mine");
  const bytes = randomBytes(100);
  await putParts(rig, 1, owner, uploadOf(owner, bytes));
  const strangers = [
    { ...owner, streamKey: new Uint8Array(32) },
    { ...owner, apiKey: BOB_KEY },
    { ...owner, idempotencyKey: "absent" },
  ];
  for (const version of VERSIONS) {
    for (const stranger of strangers) {
      assert.equal((await putParts(rig, version, stranger, uploadOf(stranger, bytes))).error, "not_found");
      assert.equal((await getBlob(rig, version, stranger, idOf(bytes))).error, "not_found");
    }
  }
  const [space] = await rig.blobs.listSpaces({ after: undefined, countMax: 10 });
  assert.deepEqual(space, nameText({ principal: "alice", idempotencyKey: "mine" }));
});

test("E1: guessing stream keys of blobs is limited as it is for streams", async (t) => {
  const rig = await startHttp(t);
  const owner = { apiKey: ALICE_KEY, idempotencyKey: "guessed", streamKey: new Uint8Array(32) };
  const codes = new Set<unknown>();
  for (let attempt = 0; attempt < 11; attempt++)
    codes.add((await getBlob(rig, 2, owner, idOf(owner.streamKey))).error);
  assert.deepEqual([...codes], ["not_found", "overloaded"]);
});

test("E3, E4: a blob lies sealed under its stream's key", async (t) => {
  const rig = await startHttp(t);
  const owner = await openStream(rig, "sealed");
  const bytes = Buffer.from("a secret that nobody should find".repeat(10));
  await putParts(rig, 1, owner, uploadOf(owner, bytes));
  const name = {
    space: nameText({ principal: "alice", idempotencyKey: "sealed" }),
    id: idOf(bytes).toString("hex"),
  };
  const unopened = await rig.blobs.get(name).catch((error: unknown) => error);
  assert.ok(unopened instanceof Error, "without the sealer it is not what its id names");
});

test("A7: when a stream expires its blobs go with it", async (t) => {
  const retention = { retentionMs: 1_000, tombstoneMs: 1e9 };
  const rig = await startHttp(t, {
    server: { host: { retention, heartbeatIntervalMs: 20 }, sweepIntervalMs: 20 },
  });
  const owner = await openStream(rig, "short");
  const bytes = randomBytes(100);
  assert.equal((await putParts(rig, 1, owner, uploadOf(owner, bytes))).error, undefined);
  await eventually(
    async () => (await getBlob(rig, 1, owner, idOf(bytes))).error === "stream_gone",
    "the stream expires",
  );
  const spaces = (): Promise<readonly string[]> => rig.blobs.listSpaces({ after: undefined, countMax: 1 });
  await eventually(async () => (await spaces()).length === 0, "its blobs are gone");
});

test("A7: blobs that a crash has left behind are cleared after the next start, others stay", async (t) => {
  const rig = await startHttp(t, { server: { sweepIntervalMs: 20 } });
  const owner = await openStream(rig, "kept");
  const bytes = randomBytes(10);
  const id = idOf(bytes).toString("hex");
  const orphan = nameText({ principal: "alice", idempotencyKey: "long gone" });
  await rig.blobs.put({ space: orphan, id }, bytes);
  await rig.blobs.put({ space: "not a stream's", id }, bytes);
  await putParts(rig, 1, owner, uploadOf(owner, bytes));
  await eventually(async () => !(await rig.blobs.has({ space: orphan, id })), "the orphan is cleared");
  assert.ok(await rig.blobs.has({ space: "not a stream's", id }));
  assert.equal((await getBlob(rig, 2, owner, idOf(bytes))).error, undefined);
});
