import assert from "node:assert/strict";
import { test } from "node:test";
import { create, fromBinary } from "../../src/protocol/message.ts";
import { LIMITS } from "../../src/protocol/index.ts";
import { AgentServerMessageSchema, ContentSchema } from "../../src/protocol/messages.ts";
import { blobIn, bytesIn, fitsInline, inBlob, inline, textIn } from "../../src/turn/content.ts";
import {
  decodeClient,
  decodeServer,
  encodeClient,
  encodePiece,
  encodeServer,
  clientMessage,
  pieceMessage,
  serverMessage,
  updateMessage,
  updateOf,
} from "../../src/turn/messages.ts";

test("a message that was made and one that was read are the same", () => {
  const action = { action: { case: "cancelAction", value: { reason: "enough" } } } as const;
  const said = { case: "conversationAction", value: action } as const;
  assert.deepEqual(decodeClient(encodeClient(said)), clientMessage(said));
  const told = updateMessage({ case: "textDelta", value: { text: "hi" } });
  assert.deepEqual(decodeServer(encodeServer(told)), told);
  assert.throws(() => decodeClient(Uint8Array.of(255)));
  assert.throws(() => decodeServer(Uint8Array.of(255)));
});

test("a piece of text is read as the generated code reads it, whatever its length and its characters", () => {
  for (const kind of ["textDelta", "thinkingDelta"] as const) {
    for (const text of [
      "",
      "a",
      "größe 😀",
      "\uFEFFx",
      ...[119, 120, 121, 122, 123, 300, 16_370, 16_390, 2 ** 21].map((n) => "x".repeat(n)),
    ]) {
      const body = encodeServer(updateMessage({ case: kind, value: { text } }));
      assert.deepStrictEqual(decodeServer(body), fromBinary(AgentServerMessageSchema, body));
      if (text !== "") assert.deepStrictEqual(encodePiece(kind, text), body);
      assert.deepStrictEqual(pieceMessage(kind, text), updateMessage({ case: kind, value: { text } }));
    }
  }
  // The same bytes with one changed: another field, a length that does not fit, what is no UTF-8. Both read the same, or both refuse.
  const whole = encodeServer(updateMessage({ case: "textDelta", value: { text: "hello" } }));
  const longer = encodeServer(updateMessage({ case: "textDelta", value: { text: "x".repeat(200) } }));
  const outcome = (read: () => unknown): unknown => {
    try {
      return read();
    } catch {
      return "refused";
    }
  };
  for (const [piece, at] of [whole, longer].flatMap((one) =>
    [...one.keys()].slice(0, 12).map((at) => [one, at] as const),
  )) {
    for (let value = 0; value < 256; value++) {
      const body = piece.with(at, value);
      const generated = outcome(() => fromBinary(AgentServerMessageSchema, body));
      assert.deepStrictEqual(
        outcome(() => decodeServer(body)),
        generated,
        `${at} ${value}`,
      );
    }
  }
});

test("an update is told from every other message", () => {
  assert.equal(updateOf(updateMessage({ case: "textDelta", value: { text: "hi" } })).case, "textDelta");
  const exec = serverMessage({ case: "execServerMessage", value: { execId: "e" } });
  assert.equal(updateOf(exec).case, undefined);
});

test("content is inline or in a blob, and read as what it is", () => {
  const bytes = new TextEncoder().encode("größe");
  const here = create(ContentSchema, inline(bytes));
  assert.deepEqual([bytesIn(here), textIn(here), blobIn(here)], [bytes, "größe", undefined]);
  const id = "ab".repeat(32);
  const beside = create(ContentSchema, inBlob(id, 9));
  assert.deepEqual([bytesIn(beside), textIn(beside), blobIn(beside)], [undefined, undefined, id]);
  assert.equal(beside.sizeBytes, 9);
  assert.equal(create(ContentSchema, inBlob(id)).sizeBytes, 0);
  assert.deepEqual(
    [bytesIn(undefined), textIn(undefined), blobIn(undefined)],
    [undefined, undefined, undefined],
  );
  assert.ok(fitsInline(new Uint8Array(LIMITS.inlineBytesMax)));
  assert.ok(!fitsInline(new Uint8Array(LIMITS.inlineBytesMax + 1)));
});
