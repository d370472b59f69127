import { strict as assert } from "node:assert";
import { test } from "node:test";
import { encodeName, labelEncoder } from "../../src/sealing/record.ts";

test("E3: a label has the bytes of its names in UTF-8, whichever letters they have", () => {
  const encode = labelEncoder();
  const names = ["", "a stream", "Überfahrt", "ЖЖЖ", "流れ", "a 😀 b", "\u007f\u0080\u07ff\u0800\uffff"];
  for (const stream of names)
    for (const kind of names) {
      const label = encode({ stream, kind, direction: "events", first: 2 ** 40 + 3, count: 5 });
      const [kindBytes, streamBytes] = [encodeName(kind), encodeName(stream)];
      const numbers = [0, 0, 1, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 5];
      const head = [1, 2, ...numbers, 0, kindBytes.length];
      assert.deepEqual([...label], [...head, ...kindBytes, ...streamBytes], `${stream} ${kind}`);
    }
});

test("E3: a name that is no text is no label: two of them would be one", () => {
  for (const bad of ["\ud800", "a\udc00b"]) {
    const label = { direction: "events", first: 0, count: 1 } as const;
    assert.throws(() => labelEncoder()({ ...label, stream: bad, kind: "" }), /well-formed/);
    assert.throws(() => labelEncoder()({ ...label, stream: "", kind: bad }), /well-formed/);
  }
});
