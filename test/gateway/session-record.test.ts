/**
 * Rows of sessions: what is written is read back, in few bytes.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { answerRef } from "../../src/gateway/answer-ref.ts";
import {
  decodeSession,
  encodeSession,
  newSession,
  type SessionRecord,
} from "../../src/gateway/session-record.ts";

const hash = fc.stringMatching(/^[0-9a-f]{64}$/);
/** Also such as could be taken for something else. */
const text = fc.oneof(
  fc.string(),
  hash,
  fc.string().map((rest) => `#${rest}`),
  fc.constantFrom("#", "##", "00".repeat(16), "0".repeat(33), "AB".repeat(16)),
);

const pending = fc.record(
  { toolId: text, execId: text, id: fc.nat(), toolCallId: text },
  { noNullPrototype: true },
);

const record: fc.Arbitrary<SessionRecord> = fc
  .record({
    principal: text,
    model: text,
    streamId: text,
    fromEvent: fc.nat(),
    includeUsage: fc.boolean(),
    door: fc.constantFrom("chat", "responses", "messages"),
    head: text,
    pending: fc.array(pending),
    responses: fc.array(text),
    parkedMax: fc.option(fc.nat(), { nil: undefined }),
    isBackground: fc.option(fc.boolean(), { nil: undefined }),
    owner: fc.option(text, { nil: undefined }),
    pausedAt: fc.option(fc.nat(), { nil: undefined }),
    createdMs: fc.nat(),
  })
  .map(({ streamId, fromEvent, includeUsage, door, head, pending: waiting, pausedAt, ...rest }) => {
    const begun = newSession({
      ...rest,
      conversationId: "c",
      answer: answerRef({ streamId, model: rest.model, fromEvent, includeUsage, door }, rest.createdMs),
      context: "0f".repeat(32),
      requestHead: "",
      historyBytes: 3,
      checkpoint: "AAAA",
    });
    return Object.assign(begun, { head, pausedAt, pending: waiting });
  });

test("whatever a session's record says, its row says the same", () => {
  fc.assert(
    fc.property(record, (one) => {
      const { answer, ...read } = decodeSession(encodeSession(one));
      const { answer: written, ...known } = one;
      assert.deepEqual(answer, written);
      for (const [name, value] of Object.entries(known))
        assert.deepEqual(Reflect.get(read, name), value, name);
    }),
  );
});

test("a row of a session is damaged when it is no list, or a value has another kind", () => {
  const [one] = fc.sample(record, 1);
  assert.ok(one !== undefined);
  const parsed: unknown = JSON.parse(new TextDecoder().decode(encodeSession(one)));
  assert.ok(Array.isArray(parsed));
  const values: readonly unknown[] = parsed;
  for (const wrong of [{}, [], values.with(4, []), values.with(0, 7)]) {
    const bytes = new TextEncoder().encode(JSON.stringify(wrong));
    assert.throws(() => decodeSession(bytes), { code: "stream_failed" });
  }
});
