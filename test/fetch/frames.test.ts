/** Whole frames of server-sent events, however their bytes are cut. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Frame, FrameReader } from "../../src/fetch/frames.ts";

const FRAMES: readonly Frame[] = [
  { text: 'id: 7\ndata: {"content":"größere "}\n\n', id: "7", data: '{"content":"größere "}' },
  { text: ": a heartbeat\nid: 8\n\n", id: "8", data: "" },
  { text: 'data: {"content":"大きい家"}\n\n', id: undefined, data: '{"content":"大きい家"}' },
];
const BYTES = new TextEncoder().encode(FRAMES.map(({ text }) => text).join(""));

/** The bytes in these pieces; then the connection breaks. */
async function readBroken(pieces: readonly Uint8Array[]): Promise<readonly Frame[]> {
  const waiting = pieces.values();
  const body = new ReadableStream<Uint8Array>({
    pull: (stream) => {
      const { done, value } = waiting.next();
      if (done === true) stream.error(new Error("broken"));
      else stream.enqueue(value);
    },
  });
  const reader = new FrameReader(body);
  const read: Frame[] = [];
  const readAll = async (): Promise<void> => {
    for (;;) read.push((await reader.next()) ?? assert.fail("it ended in good order"));
  };
  await assert.rejects(readAll(), /broken/);
  return read;
}

test("cut behind any byte, also inside a letter, only whole frames are seen", async () => {
  let length = 0;
  const ends = FRAMES.map(({ text }) => (length += new TextEncoder().encode(text).length));
  for (let at = 0; at <= BYTES.length; at++) {
    const whole = FRAMES.filter((_, frame) => (ends[frame] ?? 0) <= at);
    assert.deepEqual(await readBroken([BYTES.subarray(0, at)]), whole, `behind byte ${at}`);
    const both = await readBroken([BYTES.subarray(0, at), BYTES.subarray(at)]);
    assert.deepEqual(both, FRAMES, `in two pieces at byte ${at}`);
  }
});
