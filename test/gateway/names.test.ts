import { strict as assert } from "node:assert";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import { Names } from "../../src/gateway/names.ts";

const SECRET = new Uint8Array(32).map((_, at) => 7 * at);

test("E4: the name of a row is the HMAC of its kind and its parts, whatever they are and however long", () => {
  const names = new Names(SECRET);
  const alphabets = ["a", "é", "€", "😀", '"\\', "\ud800"];
  for (const letter of alphabets)
    for (const count of [0, 1, 60, 600, 1_343, 1_344, 1_345, 4_032, 5_000]) {
      const parts = ["somebody", letter.repeat(count)];
      const text = JSON.stringify(["session", ...parts]);
      const expected = createHmac("sha256", SECRET).update(text).digest("hex");
      assert.equal(names.row("session", ...parts), expected, `${count} times ${letter}`);
    }
});
