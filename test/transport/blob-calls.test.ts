/**
 * The blob calls of each transport, against a whole server.
 */
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test, type TestContext } from "node:test";
import { fetchConnect, memoryTransport } from "../../src/transport/index.ts";
import { http2Connect } from "../../src/transport/node/http2-client.ts";
import type { BlobCalls } from "../../src/transport/index.ts";
import { type BlobCallsUnderTest, blobCallsSuite } from "../conformance/blob-calls.ts";
import { openStream } from "../server/http/blob-client.ts";
import { ALICE_KEY, BOB_KEY, type HttpRig, startHttp } from "../server/http/rig.ts";

interface Closable {
  readonly blobs: BlobCalls;
  close(): void;
}

async function under(
  t: TestContext,
  transportOf: (rig: HttpRig) => Closable,
): Promise<BlobCallsUnderTest & Closable> {
  const rig = await startHttp(t);
  const { idempotencyKey, streamKey } = await openStream(rig, "blobs");
  const transport = transportOf(rig);
  t.after(() => transport.close());
  const meta = { idempotencyKey, streamKey, credentials: ALICE_KEY };
  return { blobs: transport.blobs, meta, stranger: BOB_KEY, close: () => transport.close() };
}

const overMemory = (rig: HttpRig): Closable => {
  const principals = new Map([
    [ALICE_KEY, "alice"],
    [BOB_KEY, "bob"],
  ]);
  const { blobs } = memoryTransport(rig.server.accept, {
    principalOf: (credentials) => principals.get(credentials ?? ""),
    blobs: rig.server.blobs,
  });
  return { blobs, close: () => undefined };
};
const overHttp2 = (rig: HttpRig): Closable => http2Connect({ url: rig.http.url });
const overFetch = (rig: HttpRig): Closable => fetchConnect({ url: rig.http.url });

blobCallsSuite("memory", (t) => under(t, overMemory));
blobCallsSuite("HTTP/2", (t) => under(t, overHttp2));
blobCallsSuite("fetch", (t) => under(t, overFetch));

for (const [name, transportOf] of [
  ["HTTP/2", overHttp2],
  ["fetch", overFetch],
] as const) {
  test(`${name}: a transport that is closed breaks its calls, and can be used again`, async (t) => {
    const transport = await under(t, transportOf);
    const { blobs, meta } = transport;
    const bytes = new Uint8Array(16 * 1024 * 1024);
    const id = "080acf35a507ac9849cfcba47dc2ad83e01b75663a516279c8b9d243b719643e";
    const put = blobs.put(meta, id, bytes, new AbortController().signal);
    transport.close();
    await assert.rejects(put, { code: "connection_lost" });
    await blobs.put(meta, id, bytes, new AbortController().signal);
  });

  test(`${name}: a server that is not there is a lost connection`, async (t) => {
    const gone = createServer().listen(0);
    const address = gone.address();
    assert.ok(address !== null && typeof address === "object");
    await new Promise((resolve) => gone.close(resolve));
    const url = `http://127.0.0.1:${address.port}`;
    const transport = name === "fetch" ? fetchConnect({ url }) : http2Connect({ url });
    t.after(() => transport.close());
    const meta = { idempotencyKey: "x", streamKey: new Uint8Array(32), credentials: ALICE_KEY };
    const get = transport.blobs.get(meta, "0".repeat(64), new AbortController().signal);
    await assert.rejects(get, { code: "connection_lost" });
  });
}
