import assert from "node:assert/strict";
import { test } from "node:test";
import { create, toBinary } from "../../../src/protocol/message.ts";
import { APPEND_BYTES_MAX, encodeClientFrame, LIMITS } from "../../../src/protocol/index.ts";
import { AppendRequestSchema, StreamRequestSchema } from "../../../src/protocol/gen/holdfast/v1/stream.ts";
import { envelopes } from "../../../src/transport/connect/envelopes.ts";
import { readErrorResponse } from "../../../src/transport/connect/errors.ts";
import { MemoryLog } from "../../../src/store/index.ts";
import { readAnswer } from "./blob-client.ts";
import { ATTACH, Dialed, transport, TRANSPORTS } from "./dial.ts";
import { attachHeaders } from "./slow-reader.ts";
import { ask, eventually, type HttpRig, startHttp, type Version, VERSIONS } from "./rig.ts";

const MIB = 1024 * 1024;
const APPEND = "/holdfast.v1.StreamService/Append";
const unary = (name: string) => ({ ...attachHeaders(name), "content-type": "application/proto" });

/** A chunk that our own encoder would refuse to write. */
const chunkOf = (bytes: number) =>
  create(StreamRequestSchema, {
    request: { case: "clientChunk", value: new Uint8Array(bytes) },
    seqno: 0,
    writerEpoch: 1,
  });

async function appendBody(rig: HttpRig, version: Version, body: Uint8Array): Promise<string> {
  const answer = await ask(rig, version, { method: "POST", path: APPEND, headers: unary("limits"), body });
  return answer.status === 200 ? "taken" : readErrorResponse(answer.status, answer.body, undefined).code;
}

for (const name of TRANSPORTS) {
  test(`E8: a chunk of 1 MiB goes through over ${name}`, async (t) => {
    const rig = await startHttp(t, {
      application: async (stream) => {
        for await (const input of stream.inputs) if (input.kind === "close") break;
      },
    });
    const dialed = new Dialed(transport(t, rig, name), "chunk");
    await dialed.welcomed();
    dialed.chunk(0, new Uint8Array(LIMITS.chunkBytesMax));
    await dialed.get("ack");
  });
}

test("E8: a chunk one byte above 1 MiB is too_large, by Append and by Stream", async (t) => {
  const rig = await startHttp(t);
  const chunk = chunkOf(LIMITS.chunkBytesMax + 1);
  const body = toBinary(
    AppendRequestSchema,
    create(AppendRequestSchema, { idempotencyKey: "limits", connectionTag: "tag", frames: [chunk] }),
  );
  for (const version of VERSIONS) assert.equal(await appendBody(rig, version, body), "too_large");
  const stream = await ask(rig, 2, {
    method: "POST",
    path: "/holdfast.v1.StreamService/Stream",
    headers: attachHeaders("limits"),
    body: envelopes([encodeClientFrame(ATTACH, "limits"), toBinary(StreamRequestSchema, chunk)]),
  });
  assert.equal(readAnswer(stream.body).error, "too_large");
});

test("E8: a frame that only promises to be too long is refused before it comes", async (t) => {
  const rig = await startHttp(t);
  for (const [promised, code] of [
    [LIMITS.chunkBytesMax + LIMITS.frameOverheadBytesMax, "invalid_frame"],
    [LIMITS.chunkBytesMax + LIMITS.frameOverheadBytesMax + 1, "too_large"],
    [0xffff_ffff, "too_large"],
  ] as const) {
    const head = Buffer.alloc(5);
    head.writeUInt32BE(promised, 1);
    for (const path of ["Stream", "Attach"]) {
      const answer = await ask(rig, 2, {
        method: "POST",
        path: `/holdfast.v1.StreamService/${path}`,
        headers: attachHeaders("limits"),
        body: head,
      });
      assert.equal(readAnswer(answer.body).error, code, `${path} ${promised}`);
    }
  }
});

test("E8: an append has at most its 8 MiB and framing; one byte more is too_large", async (t) => {
  const rig = await startHttp(t);
  // An unknown field of the right length: well-formed, and refused for nothing but its size.
  const padded = (bytes: number): Uint8Array => {
    const head = toBinary(AppendRequestSchema, create(AppendRequestSchema, { idempotencyKey: "limits" }));
    const left = bytes - head.length - 1 - 4;
    const length = [
      (left & 0x7f) | 0x80,
      ((left >> 7) & 0x7f) | 0x80,
      ((left >> 14) & 0x7f) | 0x80,
      left >> 21,
    ];
    return Buffer.concat([head, Buffer.from([0x7a, ...length]), Buffer.alloc(left)]);
  };
  for (const version of VERSIONS) {
    assert.equal(await appendBody(rig, version, padded(APPEND_BYTES_MAX)), "taken");
    assert.equal(await appendBody(rig, version, padded(APPEND_BYTES_MAX + 1)), "too_large");
  }
});

test("E8: 256 unacknowledged chunks are taken, one more is refused", async (t) => {
  const log = new HeldLog({ durability: "fsync" });
  const rig = await startHttp(t, { log });
  const dialed = new Dialed(transport(t, rig, "http2"), "unacked");
  await dialed.welcomed();
  log.hold();
  for (let seqno = 0; seqno < 256; seqno++) dialed.chunk(seqno, new Uint8Array(1));
  log.release();
  await dialed.get("ack", ({ seqno }) => seqno === 255);
  log.hold();
  for (let seqno = 256; seqno < 256 + 257; seqno++) dialed.chunk(seqno, new Uint8Array(1));
  assert.equal((await dialed.get("error")).code, "too_large");
  log.release();
});

test("E8: 8 MiB unacknowledged are taken, one byte more is refused", async (t) => {
  for (const [last, isTaken] of [
    [MIB, true],
    [MIB + 1, false],
  ] as const) {
    const log = new HeldLog({ durability: "fsync" });
    const rig = await startHttp(t, {
      log,
      application: async ({ signal }) =>
        new Promise((stop) => signal.addEventListener("abort", () => stop())),
    });
    const dialed = new Dialed(transport(t, rig, "http2"), "bytes");
    await dialed.welcomed();
    log.hold();
    const sizes = [MIB - 1, MIB, MIB, MIB, MIB, MIB, MIB, ...(isTaken ? [MIB, 1] : [MIB, 2])];
    assert.ok(last > 0);
    for (const [seqno, size] of sizes.entries()) dialed.chunk(seqno, new Uint8Array(size));
    if (isTaken) {
      await eventually(() => log.waiting > 0, "a commit waits");
      log.release();
      await dialed.get("ack", ({ seqno }) => seqno === sizes.length - 1);
    } else {
      assert.equal((await dialed.get("error")).code, "too_large");
      log.release();
    }
  }
});

test("E8: 32 MiB that the application does not read are kept for it; then the writer is told to come back", async (t) => {
  const rig = await startHttp(t, {
    application: async ({ signal }) =>
      new Promise((stop) => {
        signal.addEventListener("abort", () => stop());
      }),
  });
  const dialed = new Dialed(transport(t, rig, "http2"), "unread");
  await dialed.welcomed();
  const whole = LIMITS.bodyBytesMax / MIB;
  for (let sent = 0; sent < whole; sent++) {
    dialed.chunk(sent, new Uint8Array(MIB));
    await dialed.get("ack", ({ seqno }) => seqno === sent);
  }
  dialed.chunk(whole, new Uint8Array(1));
  dialed.chunk(whole + 1, new Uint8Array(1));
  assert.equal((await dialed.get("error")).code, "overloaded");
});

test("E8: 16 KiB of headers are enough and one more header is not", async (t) => {
  const rig = await startHttp(t);
  for (const version of VERSIONS) {
    const fine = await ask(rig, version, { path: "/health", headers: { "x-large": "x".repeat(15_000) } });
    assert.equal(fine.status, 200);
  }
  for (const version of VERSIONS) {
    const refused = await ask(rig, version, { path: "/health", headers: { "x-large": "x".repeat(17_000) } });
    assert.equal(refused.status, 431);
  }
});

/** A log whose appends wait for a word. */
class HeldLog extends MemoryLog {
  #held: Promise<void> = Promise.resolve();
  #release: () => void = () => undefined;
  waiting = 0;

  hold(): void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#held = promise;
    this.#release = resolve;
  }

  release(): void {
    this.#release();
  }

  override async append(record: Uint8Array): Promise<number> {
    this.waiting++;
    await this.#held;
    this.waiting--;
    return super.append(record);
  }
}
