/** How server and line cut what they say. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { framed, Frames } from "../../../../src/agent/models/line/line-frames.ts";

test("frames are the same however the bytes of the connection are cut, and none comes out in part", () => {
  const said = ["{}", "data: gr", "üße\n\n", "", "x".repeat(300), ""];
  const all = Buffer.concat(said.map((frame) => framed(Buffer.from(frame))));
  for (let first = 0; first <= all.length; first++)
    for (const second of [first, Math.min(all.length, first + 3)]) {
      const frames = new Frames();
      const cut = [all.subarray(0, first), all.subarray(first, second), all.subarray(second)];
      assert.deepEqual(
        cut.flatMap((bytes) => frames.push(bytes).map(String)),
        said,
      );
    }
  assert.deepEqual(new Frames().push(all.subarray(0, -1)).map(String), said.slice(0, -1));
});
