/**
 * API keys as people hand them over.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { credentialsOf } from "../../src/client/api-key.ts";

test("a key out of a file comes with a line feed, and nothing but the key is sent", async () => {
  assert.equal(await credentialsOf("hf_key\n")(), "hf_key");
  assert.equal(await credentialsOf(async () => " hf_key\r\n")(), "hf_key");
});

test("an empty key is none", async () => {
  for (const nothing of [undefined, "", " \n", async () => undefined]) {
    assert.equal(await credentialsOf(nothing)(), undefined);
  }
});

test("E4: what cannot be a key is refused at once, without being said", async () => {
  const refused = { code: "invalid_argument", message: /^(?!.*secret).*visible ASCII/ };
  assert.throws(() => credentialsOf("two secret words"), refused);
  assert.throws(() => credentialsOf("secr\u00e9t-secret"), refused);
  await assert.rejects(credentialsOf(async () => "secret\u2013key")(), refused);
});
