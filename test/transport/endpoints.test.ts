/** What the server's half does about calls that are not as they should be. */
import assert from "node:assert/strict";
import { connect as connectTcp } from "node:net";
import { once } from "node:events";
import { test, type TestContext } from "node:test";
import * as fc from "fast-check";
import { encodeAppend } from "../../src/protocol/append-codec.ts";
import { encodeClientFrame } from "../../src/protocol/frame-codec.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import { encodeListen } from "../../src/protocol/listen-codec.ts";
import { envelopes } from "../../src/transport/connect/envelopes.ts";
import type { HttpRig } from "./http-rig.ts";
import { HEADERS, rawHttp1, rawHttp2 } from "./raw-call.ts";
import { ATTACH } from "./split-rig.ts";
import { streamServer } from "./stream-server.ts";

const STREAM = "/holdfast.v1.StreamService/Stream";
const CALL_ATTACH = "/holdfast.v1.StreamService/Attach";
const APPEND = "/holdfast.v1.StreamService/Append";
const LISTEN = "/holdfast.v1.StreamService/Listen";
const UNARY = { ...HEADERS, "content-type": "application/proto" };

const attach = encodeClientFrame(ATTACH, "key");

/** The server is as it was: it lets a client in and out again. */
async function staysUp(rig: HttpRig): Promise<void> {
  const { status, code } = await rawHttp2(rig.url, STREAM, [envelopes([attach])]);
  assert.deepEqual({ status, code }, { status: 200, code: undefined });
}

async function refusedStream(t: TestContext, ...pieces: Uint8Array[]): Promise<string | undefined> {
  const rig = await streamServer(t);
  const { frames, code } = await rawHttp2(rig.url, STREAM, pieces, HEADERS, true);
  const last = frames.at(-1);
  assert.equal(last?.kind === "error" ? last.code : undefined, code, "the frame and the call say the same");
  await staysUp(rig);
  return code;
}

test("a frame that is no protobuf is answered with an error frame and the end", async (t) => {
  assert.equal(await refusedStream(t, envelopes([Buffer.from("ffffff", "hex")])), "invalid_frame");
});

test("an empty frame is refused", async (t) => {
  assert.equal(await refusedStream(t, envelopes([new Uint8Array()])), "invalid_frame");
});

test("a compressed frame is refused", async (t) => {
  assert.equal(await refusedStream(t, Buffer.from("0100000000", "hex")), "invalid_frame");
});

test("a first frame that is no attach is refused", async (t) => {
  const beat = encodeClientFrame({ kind: "heartbeat", runningExecIds: [] }, "");
  assert.equal(await refusedStream(t, envelopes([beat])), "invalid_frame");
});

test("a frame for another stream is refused", async (t) => {
  assert.equal(await refusedStream(t, envelopes([encodeClientFrame(ATTACH, "other")])), "invalid_frame");
});

test("E8: a frame of the largest size is read, and one byte more is refused before it has come", async (t) => {
  const bytesMax = LIMITS.chunkBytesMax + LIMITS.frameOverheadBytesMax;
  const head = (length: number): Uint8Array => {
    const bytes = Buffer.alloc(5);
    bytes.writeUInt32BE(length, 1);
    return bytes;
  };
  assert.equal(await refusedStream(t, head(bytesMax + 1)), "too_large");
  // At the limit it is read to its end, and is then no frame.
  assert.equal(await refusedStream(t, head(bytesMax), new Uint8Array(bytesMax).fill(255)), "invalid_frame");
});

test("a request that ends within a frame is refused", async (t) => {
  const rig = await streamServer(t);
  const bytes = envelopes([attach]);
  const { code } = await rawHttp2(rig.url, STREAM, [bytes.subarray(0, bytes.length - 1)]);
  assert.equal(code, "invalid_frame");
});

test("every cut of an attach into two pieces attaches", async (t) => {
  const rig = await streamServer(t);
  const bytes = envelopes([attach, new Uint8Array()]);
  for (let cut = 1; cut < bytes.length; cut += 3) {
    // The empty frame behind it ends the call, so that there is something to wait for.
    const { code } = await rawHttp2(rig.url, STREAM, [bytes.subarray(0, cut), bytes.subarray(cut)]);
    assert.equal(code, "invalid_frame");
  }
});

test("headers that are missing or malformed are refused, and a key is not repeated", async (t) => {
  const { url } = await streamServer(t);
  const without = (name: keyof typeof HEADERS): Record<string, string> => {
    const { [name]: _, ...rest } = HEADERS;
    return rest;
  };
  const cases: [Record<string, string>, string][] = [
    [without("x-idempotency-key"), "invalid_frame"],
    [without("x-idempotent-encryption-key"), "invalid_frame"],
    [{ ...HEADERS, "x-idempotent-encryption-key": "c2VjcmV0" }, "invalid_frame"],
    [{ ...HEADERS, "x-idempotency-key": "k".repeat(129) }, "invalid_frame"],
    [{ ...HEADERS, "x-idempotency-event-id": "7" }, "invalid_frame"],
    [without("authorization"), "unauthenticated"],
  ];
  for (const [headers, code] of cases) {
    const body = [envelopes([attach])];
    assert.equal((await rawHttp2(url, STREAM, body, headers, true)).code, code);
    assert.equal((await rawHttp1(url, CALL_ATTACH, envelopes([attach]), headers)).code, code);
  }
});

test("calls of another kind get a status that says so", async (t) => {
  const { url } = await streamServer(t);
  const answer = async (path: string, headers: Record<string, string>) =>
    (await rawHttp1(url, path, envelopes([attach]), headers)).status;
  assert.equal(await answer(STREAM, HEADERS), 505);
  assert.equal(await answer(CALL_ATTACH, UNARY), 415);
  assert.equal(await answer(APPEND, HEADERS), 415);
  assert.equal(await answer(APPEND, { ...UNARY, "content-encoding": "gzip" }), 415);
  assert.equal(await answer(APPEND, { ...UNARY, "connect-protocol-version": "2" }), 400);
  assert.equal(await answer("/holdfast.v1.StreamService/Nothing", UNARY), 404);
  assert.equal((await fetch(url + APPEND, { headers: { authorization: "Bearer alice" } })).status, 405);
});

test("E8: an append above its limit is refused, whether it says so or not", async (t) => {
  const { url } = await streamServer(t);
  const large = new Uint8Array(LIMITS.unackedBytesMax + LIMITS.frameOverheadBytesMax + 1);
  assert.equal((await rawHttp1(url, APPEND, large, UNARY)).status, 413);
  assert.equal((await rawHttp2(url, APPEND, [large], UNARY, true)).status, 413);
});

test("E2: nobody reaches another principal's connection or listener, and a wrong stream key reaches none", async (t) => {
  const { url } = await streamServer(t);
  const abort = new AbortController();
  t.after(() => abort.abort());
  const tagged = { ...HEADERS, "x-holdfast-connection": "tag" };
  const open = (path: string, body: Uint8Array<ArrayBuffer>) =>
    fetch(url + path, { method: "POST", headers: tagged, body, signal: abort.signal });
  await open(CALL_ATTACH, envelopes([attach]));
  await open(LISTEN, envelopes([encodeListen("page")]));
  const append = { idempotencyKey: "key", connectionTag: "tag", listener: "", detach: false };
  const beat = encodeAppend({ ...append, frames: [{ kind: "heartbeat", runningExecIds: [] }] });
  const join = encodeAppend({ ...append, frames: [ATTACH], listener: "page", connectionTag: "tag-2" });
  const outcome = async (message: Uint8Array, headers: Record<string, string>): Promise<string> => {
    const body = Buffer.from(message);
    const response = await fetch(url + APPEND, { method: "POST", headers, body });
    return Buffer.from(await response.arrayBuffer()).toString("latin1");
  };
  assert.doesNotMatch(await outcome(beat, UNARY), /nothing is attached/);
  assert.match(await outcome(beat, { ...UNARY, authorization: "Bearer bob" }), /nothing is attached/);
  assert.match(await outcome(join, { ...UNARY, authorization: "Bearer bob" }), /no such listener/);
  const otherKey = Buffer.alloc(32, 8).toString("base64url");
  assert.match(
    await outcome(beat, { ...UNARY, "x-idempotent-encryption-key": otherKey }),
    /nothing is attached/,
  );
});

test("arbitrary bytes as requests, in any pieces, get an answer and leave the server up", async (t) => {
  const rig = await streamServer(t);
  const noise = fc.array(fc.uint8Array({ minLength: 1, maxLength: 60 }), { minLength: 1, maxLength: 4 });
  const path = fc.constantFrom(STREAM, CALL_ATTACH, APPEND, LISTEN);
  const json = fc.boolean();
  const property = fc.asyncProperty(path, noise, json, fc.boolean(), async (to, pieces, isJson, isFramed) => {
    const kind = to === APPEND ? "application/" : "application/connect+";
    const headers = { ...HEADERS, "content-type": `${kind}${isJson ? "json" : "proto"}` };
    const { status } = await rawHttp2(rig.url, to, isFramed ? [envelopes(pieces)] : pieces, headers);
    assert.ok(status >= 200 && status < 600);
  });
  await fc.assert(property, { numRuns: 150 });
  await staysUp(rig);
});

test("arbitrary bytes on a connection leave the server up", async (t) => {
  const rig = await streamServer(t);
  const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  const property = fc.asyncProperty(
    fc.uint8Array({ minLength: 1, maxLength: 200 }),
    fc.boolean(),
    async (noise, isHttp2) => {
      const socket = connectTcp(rig.relay.port, "127.0.0.1");
      socket.on("error", () => undefined);
      socket.end(isHttp2 ? Buffer.concat([preface, noise]) : noise);
      socket.resume();
      await once(socket, "close");
    },
  );
  await fc.assert(property, { numRuns: 100 });
  await staysUp(rig);
});
