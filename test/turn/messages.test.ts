import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { LIMITS } from "../../src/protocol/index.ts";
import { ContentSchema } from "../../src/protocol/messages.ts";
import { blobIn, bytesIn, fitsInline, inBlob, inline, textIn } from "../../src/turn/content.ts";
import {
  decodeClient,
  decodeServer,
  encodeClient,
  encodeServer,
  clientMessage,
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
