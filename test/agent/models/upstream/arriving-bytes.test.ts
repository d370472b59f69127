import assert from "node:assert/strict";
import { test } from "node:test";
import {
  ArrivingBytes,
  arrivingResponse,
  readerOf,
} from "../../../../src/agent/models/upstream/arriving-bytes.ts";

/** Bytes of no socket, and what was asked of it. */
function arriving(): { readonly bytes: ArrivingBytes; readonly asked: string[] } {
  const asked: string[] = [];
  const flow = { pause: () => asked.push("pause"), resume: () => asked.push("resume") };
  return { bytes: new ArrivingBytes(flow), asked };
}

const text = (value: Uint8Array | undefined): string => Buffer.from(value ?? []).toString();

test("what comes at once is read at once, whether its reader waits or is behind", async () => {
  const { bytes } = arriving();
  const waiting = bytes.read();
  for (const word of ["north ", "by "]) bytes.take(Buffer.from(word));
  assert.equal(text((await waiting).value), "north by ");
  for (const word of ["north", "-", "west"]) bytes.take(Buffer.from(word));
  assert.equal(text((await bytes.read()).value), "north-west");
});

test("a break, and an end, are read behind every byte that came", async () => {
  for (const isBroken of [true, false]) {
    const { bytes } = arriving();
    bytes.take(Buffer.from("north"));
    if (isBroken) bytes.break(new TypeError("broken"));
    else bytes.end();
    // The socket closes behind its end.
    bytes.break(new RangeError("closed"));
    assert.equal(text((await bytes.read()).value), "north");
    if (isBroken) await assert.rejects(bytes.read(), TypeError);
    else assert.equal((await bytes.read()).done, true);
  }
});

test("F2: a reader that is behind stops what brings more, until it has read", async () => {
  const { bytes, asked } = arriving();
  bytes.take(new Uint8Array(64 * 1024));
  assert.deepEqual(asked, []);
  bytes.take(new Uint8Array(1));
  assert.deepEqual(asked, ["pause"]);
  await bytes.read();
  assert.deepEqual(asked, ["pause", "resume"]);
});

test("a response is read directly or as a web stream, and one that is not wanted is left", async () => {
  const [direct, streamed] = [arriving().bytes, arriving().bytes];
  const left: unknown[] = [];
  const response = arrivingResponse(direct, { status: 200 }, () => undefined);
  assert.equal(readerOf(response), direct);
  const other = arrivingResponse(streamed, { status: 200 }, (reason) => left.push(reason));
  streamed.take(Buffer.from("north"));
  const reader: ReadableStreamDefaultReader<Uint8Array> = other.body?.getReader() ?? assert.fail();
  assert.equal(text((await reader.read()).value), "north");
  await reader.cancel("enough");
  assert.deepEqual(left, ["enough"]);
  assert.equal((await readerOf(new Response(null)).read()).done, true);
});

test("a response is read whole as the platform's own is, once", async () => {
  const { bytes } = arriving();
  const response = arrivingResponse(bytes, { status: 201, headers: { named: "so" } }, () => undefined);
  for (const piece of ["[1,", "2]"]) bytes.take(Buffer.from(piece));
  bytes.end();
  assert.deepEqual([response.status, response.headers.get("named"), response.bodyUsed], [201, "so", false]);
  assert.deepEqual(await response.json(), [1, 2]);
  assert.equal(response.bodyUsed, true);
  await assert.rejects(response.text(), TypeError);
  const copied = arriving().bytes;
  copied.take(Buffer.from("north"));
  copied.end();
  const given = arrivingResponse(copied, { status: 200 }, () => undefined);
  assert.equal(await new Response(given.body, given).text(), "north");
});
