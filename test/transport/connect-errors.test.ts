import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { WIRE_CODES, HoldfastError } from "../../src/protocol/errors.ts";
import { decodeBase64, encodeBase64, encodeBase64Url } from "../../src/transport/connect/base64.ts";
import {
  connectErrorJson,
  endOfStreamJson,
  readConnectError,
  readEndOfStream,
  readErrorResponse,
  statusOf,
} from "../../src/transport/connect/errors.ts";
import { formatOf } from "../../src/transport/connect/formats.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

test("every error of ours survives the way through Connect's", () => {
  for (const code of WIRE_CODES) {
    for (const retryAfterMs of [undefined, 0, 250]) {
      const error = new HoldfastError(code, `about ${code}`, { retryAfterMs });
      const back = readConnectError(JSON.parse(JSON.stringify(connectErrorJson(error))));
      assert.deepEqual(
        { code: back.code, message: back.message, retryAfterMs: back.retryAfterMs },
        { code, message: `about ${code}`, retryAfterMs },
      );
      assert.equal(readEndOfStream(bytes(endOfStreamJson(error)))?.code, code);
      assert.equal(
        readErrorResponse(statusOf(error), bytes(JSON.stringify(connectErrorJson(error))), null).code,
        code,
      );
    }
  }
  assert.equal(readEndOfStream(bytes(endOfStreamJson(undefined))), undefined);
});

test("every code has one of Connect's and a status of failure", () => {
  const connectCodes = new Set(
    (
      "canceled unknown invalid_argument deadline_exceeded not_found already_exists permission_denied " +
      "resource_exhausted failed_precondition aborted out_of_range unimplemented internal unavailable data_loss " +
      "unauthenticated"
    ).split(" "),
  );
  for (const code of WIRE_CODES) {
    const error = new HoldfastError(code, "");
    const json: unknown = JSON.parse(JSON.stringify(connectErrorJson(error)));
    assert.ok(typeof json === "object" && json !== null && "code" in json);
    assert.ok(connectCodes.has(String(json.code)), code);
    assert.ok(statusOf(error) >= 400 && statusOf(error) < 600);
  }
});

test("what others say is believed only where it surely means the same", () => {
  const foreign = (status: number, retryAfter?: string) =>
    readErrorResponse(status, bytes("<html>nope</html>"), retryAfter);
  assert.equal(foreign(401).code, "unauthenticated");
  assert.equal(foreign(503, "7").code, "unavailable");
  assert.equal(foreign(503, "7").retryAfterMs, 7000);
  assert.equal(foreign(429, "0.5").retryAfterMs, 500);
  assert.equal(foreign(503, "Wed, 21 Oct 2015 07:28:00 GMT").retryAfterMs, undefined);
  // A proxy that has lost its route must not end a stream for good.
  for (const status of [200, 301, 400, 403, 404, 410, 500]) assert.equal(foreign(status).code, "internal");
  assert.equal(readConnectError({ code: "not_found", message: "no route" }).code, "internal");
  assert.equal(readConnectError({ code: "unavailable" }).code, "unavailable");
});

test("anything at all can be read as an error", () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.uint8Array(), (json, noise) => {
      assert.ok(readConnectError(json) instanceof HoldfastError);
      assert.ok(readErrorResponse(500, noise, undefined) instanceof HoldfastError);
      const end = readEndOfStream(noise);
      assert.ok(end === undefined || end instanceof HoldfastError);
    }),
  );
});

test("base64 comes back from either alphabet, with padding or without", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 100 }), (each) => {
      const buffer = Buffer.from(each);
      assert.equal(encodeBase64(each), buffer.toString("base64").replace(/=+$/, ""));
      assert.equal(encodeBase64Url(each), buffer.toString("base64url"));
      for (const text of [encodeBase64(each), encodeBase64Url(each), buffer.toString("base64")]) {
        assert.deepEqual(decodeBase64(text), each);
      }
    }),
  );
});

test("what is not base64, or a second spelling of something, is refused", () => {
  for (const text of ["A", "A===", "AB!D", "AB D", "QQ==QQ", "QR", "ä"]) {
    assert.equal(decodeBase64(text), undefined, text);
  }
});

test("a format is told by the content-type's essence", () => {
  assert.equal(formatOf("application/connect+proto", "stream"), "proto");
  assert.equal(formatOf("Application/JSON; charset=utf-8", "unary"), "json");
  for (const type of [undefined, "", "text/plain", "application/proto"]) {
    assert.equal(formatOf(type, "stream"), undefined);
  }
});
