/**
 * E2 on the wire: with another principal's ids every call of our own protocol is answered as with ids that do not exist, to the byte,
 * even for a client that has learned the stream key; and nothing happens to what they name.
 */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test, type TestContext } from "node:test";
import { create, toBinary } from "../../../src/protocol/message.ts";
import {
  type AttachFrame,
  type ClientFrame,
  encodeAppend,
  encodeClientFrame,
  encodeListen,
  GetRequestSchema,
} from "../../../src/protocol/index.ts";
import { encodeBase64Url } from "../../../src/transport/connect/base64.ts";
import { envelopes } from "../../../src/transport/connect/envelopes.ts";
import { idOf, uploadOf } from "./blob-client.ts";
import { ATTACH, Dialed, READ, STREAM_KEY, transport } from "./dial.ts";
import {
  ALICE_KEY,
  ask,
  type Asked,
  bearer,
  BOB_KEY,
  eventually,
  type HttpRig,
  startHttp,
  VERSIONS,
} from "./rig.ts";

const HERS = "hers";
const NOBODYS = "none";
const TAG = "tag";
const PAGE = "page";
const BLOB = randomBytes(1_000);
const STREAMS = "/holdfast.v1.StreamService";
const BLOBS = "/holdfast.v1.BlobService";

/** What a stranger can ask about a stream, whichever it names. */
type Call = (idempotencyKey: string, apiKey?: string) => Asked;

function headersOf(idempotencyKey: string, apiKey: string, type: string): Record<string, string> {
  return {
    ...bearer(apiKey),
    "content-type": type,
    "x-idempotency-key": idempotencyKey,
    "x-idempotent-encryption-key": encodeBase64Url(STREAM_KEY),
  };
}

const streaming =
  (path: string, messages: (idempotencyKey: string) => readonly Uint8Array[], more = {}): Call =>
  (idempotencyKey, apiKey = BOB_KEY) => ({
    method: "POST",
    path,
    headers: { ...headersOf(idempotencyKey, apiKey, "application/connect+proto"), ...more },
    body: envelopes(messages(idempotencyKey)),
  });

const attaching = (call: "Attach" | "Stream", attach: AttachFrame): Call =>
  streaming(`${STREAMS}/${call}`, (name) => [encodeClientFrame(attach, name)], {
    "x-holdfast-connection": TAG,
  });

const appending =
  (
    frames: readonly ClientFrame[],
    more: { readonly listener?: string; readonly detach?: boolean } = {},
  ): Call =>
  (idempotencyKey, apiKey = BOB_KEY) => ({
    method: "POST",
    path: `${STREAMS}/Append`,
    headers: headersOf(idempotencyKey, apiKey, "application/proto"),
    body: encodeAppend({ idempotencyKey, connectionTag: TAG, listener: "", detach: false, ...more, frames }),
  });

const ownerOf = (idempotencyKey: string) => ({ apiKey: BOB_KEY, idempotencyKey, streamKey: STREAM_KEY });
const WRITE: AttachFrame = { ...ATTACH, mode: "resume" };
const CHUNK = { kind: "chunk", seqno: 1, writerEpoch: 1, body: new Uint8Array([6]) } as const;

const CALLS: ReadonlyMap<string, Call> = new Map([
  // While her connection of that tag is open: an attach under the same tag might end it.
  ["Append a heartbeat", appending([{ kind: "heartbeat", runningExecIds: [] }])],
  ["Append a chunk", appending([CHUNK])],
  ["Append an abort", appending([{ kind: "abort" }])],
  ["Append and detach", appending([], { detach: true })],
  ["Append to her listener", appending([READ], { listener: PAGE })],
  ["Attach as a writer", attaching("Attach", WRITE)],
  ["Attach as a reader", attaching("Attach", READ)],
  ["Attach to abort", attaching("Attach", { ...READ, abort: true })],
  ["Attach behind an event", attaching("Attach", { ...READ, eventId: 1 })],
  ["Stream as a writer", attaching("Stream", WRITE)],
  ["Stream as a reader", attaching("Stream", READ)],
  ["Stream to abort", attaching("Stream", { ...READ, abort: true })],
  [
    "Get a blob",
    streaming(`${BLOBS}/Get`, (idempotencyKey) => [
      toBinary(GetRequestSchema, create(GetRequestSchema, { idempotencyKey, blobId: idOf(BLOB) })),
    ]),
  ],
  ["Put a blob", streaming(`${BLOBS}/Put`, (name) => uploadOf(ownerOf(name), BLOB))],
]);

/** Everything of an answer that does not change with the time of day. */
async function answerTo(rig: HttpRig, version: 1 | 2, asked: Asked): Promise<unknown> {
  const { status, headers, body } = await ask(rig, version, asked);
  const { date: _, ...rest } = headers;
  return { status, headers: rest, body: body.toString("latin1") };
}

/** A call whose answer goes on until the test is over. */
async function open(t: TestContext, rig: HttpRig, { path, headers = {}, body = "" }: Asked): Promise<void> {
  const over = new AbortController();
  t.after(() => over.abort());
  const { signal } = over;
  const answer = await fetch(rig.http.url + path, {
    method: "POST",
    headers,
    body: Buffer.from(body),
    signal,
  });
  assert.equal(answer.status, 200);
}

/** Alice's stream, with a blob, followed over a split connection and by a listener. */
async function begin(t: TestContext, rig: HttpRig): Promise<Dialed> {
  const writer = new Dialed(transport(t, rig, "fetch"), HERS);
  await writer.welcomed();
  writer.chunk(0, new Uint8Array([5]));
  await writer.get("event");
  const put = CALLS.get("Put a blob")?.(HERS, ALICE_KEY) ?? assert.fail();
  assert.equal((await ask(rig, 1, put)).status, 200);
  // Under the names that the calls above use.
  const attach = attaching("Attach", READ)(HERS, ALICE_KEY);
  const listen = streaming(`${STREAMS}/Listen`, () => [encodeListen(PAGE)])(HERS, ALICE_KEY);
  for (const asked of [attach, listen]) await open(t, rig, asked);
  return writer;
}

for (const version of VERSIONS) {
  test(`E2: over HTTP/${version} another principal's stream is answered as one that does not exist, call by call`, async (t) => {
    const rig = await startHttp(t);
    const writer = await begin(t, rig);
    for (const [what, call] of CALLS) {
      // Without HTTP/2 there is no two-way call.
      if (version === 1 && what.startsWith("Stream")) continue;
      const absent = await answerTo(rig, version, call(NOBODYS));
      assert.deepEqual(await answerTo(rig, version, call(HERS)), absent, what);
    }
    // She has noticed nothing.
    writer.chunk(1, new Uint8Array([7]));
    const event = await writer.get("event", ({ body }) => body[0] === 7);
    assert.deepEqual([event.eventId, writer.isClosed], [2, false]);
  });

  test(`E2: over HTTP/${version} asking again and again is limited alike, whether a stream is another's or nobody's`, async (t) => {
    const rig = await startHttp(t);
    await begin(t, rig);
    const call = CALLS.get("Attach as a reader") ?? assert.fail();
    const bodiesFor = async (name: string): Promise<string[]> => {
      const bodies: string[] = [];
      for (let count = 0; count < 12; count++)
        bodies.push((await ask(rig, version, call(name))).body.toString());
      return bodies.map((body) => /"code":"(\w+)"/.exec(body)?.[1] ?? body);
    };
    const absent = await bodiesFor(NOBODYS);
    assert.deepEqual(await bodiesFor(HERS), absent);
    assert.equal(new Set(absent).size, 2, "and it is limited");
    const own = new Dialed(transport(t, rig, "fetch"), HERS, READ);
    await own.welcomed();
  });

  test(`E2: over HTTP/${version} a stream that has ended, and one that is gone, are nobody's to others`, async (t) => {
    const retention = { retentionMs: 200, tombstoneMs: 600_000 };
    const server = { host: { retention, heartbeatIntervalMs: 20 }, sweepIntervalMs: 20 };
    const rig = await startHttp(t, { server });
    const writer = await begin(t, rig);
    writer.say({ kind: "close", seqno: 1, writerEpoch: 1 });
    await writer.get("event", ({ end }) => end !== undefined);
    const call = CALLS.get("Attach as a reader") ?? assert.fail();
    const absent = await answerTo(rig, version, call(NOBODYS));
    assert.deepEqual(await answerTo(rig, version, call(HERS)), absent);
    writer.end();
    const name = { principal: "alice", idempotencyKey: HERS };
    await eventually(async () => (await rig.store.load(name)).kind === "gone", "it has expired");
    const own = new Dialed(transport(t, rig, "fetch"), HERS, READ);
    assert.equal((await own.get("error")).code, "stream_gone");
    assert.deepEqual(await answerTo(rig, version, call(HERS)), absent);
  });
}

test("E2: a listener is of its principal alone, also under the name of another's", async (t) => {
  const rig = await startHttp(t);
  const hers = new Dialed(transport(t, rig, "listen"), HERS);
  await hers.welcomed();
  const listen = streaming(`${STREAMS}/Listen`, () => [encodeListen(PAGE)]);
  await open(t, rig, listen(HERS, ALICE_KEY));
  await open(t, rig, listen(HERS, BOB_KEY));
  const join = appending([READ], { listener: PAGE });
  const absent = await answerTo(rig, 1, join(NOBODYS));
  assert.deepEqual(await answerTo(rig, 1, join(HERS)), absent);
  hers.chunk(0, new Uint8Array([7]));
  await hers.get("event");
  assert.equal(hers.isClosed, false);
});
