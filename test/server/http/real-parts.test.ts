/**
 * The edge over the real things: SQLite on a disk, API keys, TLS, and Connect's own clients.
 */
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { type CallOptions, Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { Client } from "../../../src/client/index.ts";
import { retry } from "../../../src/core/index.ts";
import { BlobService } from "../../../src/protocol/gen/holdfast/v1/blob_pb.ts";
import { nodeSealing } from "../../../src/sealing/node.ts";
import { ApiKeys } from "../../../src/server/api-keys.ts";
import { countedLog, createServer, newServerCounters } from "../../../src/server/index.ts";
import { type HttpOptions, serveHttp } from "../../../src/server/http/index.ts";
import { openLogStreamStore } from "../../../src/store/index.ts";
import { openSqlite } from "../../../src/store/sqlite/index.ts";
import { encodeBase64Url } from "../../../src/transport/connect/base64.ts";
import { http2Connect } from "../../../src/transport/node/http2-client.ts";
import { testCertificate } from "../../transport/certificate.ts";
import { openStream, type Owner } from "./blob-client.ts";
import { echo, eventually, startHttp } from "./rig.ts";

const HOME_KEY = new Uint8Array(32).fill(4);
const SOON = { ...retry.DEFAULTS, baseMs: 5, capMs: 50, budget: { burst: 10_000, refillMs: 1 } };

async function startOnDisk(folder: string, options: Partial<HttpOptions>) {
  const now = (): number => Date.now();
  const counters = newServerCounters();
  const database = await openSqlite(join(folder, "holdfast.db"), { now });
  const store = await openLogStreamStore(countedLog(database.log, counters), { now });
  const keys = new ApiKeys({ tables: database.tables, now });
  const bugs: unknown[] = [];
  const { blobs } = database;
  const onBug = (bug: unknown): void => void bugs.push(bug);
  const server = createServer({ store, blobs, counters, sealing: nodeSealing(), application: echo, onBug });
  const authenticate = (apiKey: string | undefined) => keys.authenticate(apiKey);
  const http = await serveHttp({ server, authenticate, ...options });
  const close = async (): Promise<void> => {
    await http.close({ drainMs: 2_000 });
    await store.close();
    await database.close();
    assert.deepEqual(bugs, []);
  };
  return { http, keys, server, close };
}

async function temporary(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-http-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

test("A3: over TLS and SQLite, a stream survives two orderly restarts in the middle of it", async (t) => {
  const folder = await temporary(t);
  let running = await startOnDisk(folder, { tls: testCertificate });
  const { apiKey } = await running.keys.create("alice", "laptop");
  const { port, url } = running.http;
  assert.match(url, /^https:/);
  const wire = http2Connect({ url: `https://127.0.0.1:${port}`, ca: testCertificate.cert });
  t.after(() => wire.close());
  const client = new Client({
    connect: wire.connect,
    sealing: nodeSealing(),
    homeKey: HOME_KEY,
    credentials: async () => apiKey,
    stream: { retry: SOON },
  });
  const stream = await client.open({ idempotencyKey: "on-disk" });
  const seen: string[] = [];
  const reading = (async () => {
    for await (const event of stream.events)
      if (event.body.length > 0) seen.push(Buffer.from(event.body).toString());
  })();
  const said: string[] = [];
  for (let part = 0; part < 3; part++) {
    const sending = (async () => {
      for (let at = 0; at < 50; at++) {
        said.push(`word ${said.length}`);
        await stream.send(Buffer.from(said.at(-1) ?? ""));
      }
    })();
    if (part < 2) {
      await eventually(() => seen.length > part * 40, "it goes on");
      await running.close();
      running = await startOnDisk(folder, { tls: testCertificate, port });
    }
    await sending;
  }
  await stream.close();
  await reading;
  assert.deepEqual(seen, said, "each word once and in order");
  await client.close();
  await running.close();
});

const withHeaders = (owner: Owner): CallOptions => ({
  headers: {
    authorization: `Bearer ${owner.apiKey}`,
    "x-idempotency-key": owner.idempotencyKey,
    "x-idempotent-encryption-key": encodeBase64Url(owner.streamKey),
  },
});

for (const httpVersion of ["1.1", "2"] as const) {
  for (const useBinaryFormat of [true, false]) {
    const format = useBinaryFormat ? "binary" : "JSON";
    test(`E5: Connect's own client puts and gets blobs over HTTP/${httpVersion} in ${format}`, async (t) => {
      const rig = await startHttp(t);
      const owner = await openStream(rig, "stock");
      const transport = createConnectTransport({ baseUrl: rig.http.url, httpVersion, useBinaryFormat });
      const client = createClient(BlobService, transport);
      const bytes = randomBytes(700_000);
      const blobId = createHash("sha256").update(bytes).digest();
      async function* upload(id: Uint8Array) {
        const { idempotencyKey } = owner;
        yield {
          part: { case: "header" as const, value: { blobId: id, sizeBytes: bytes.length, idempotencyKey } },
        };
        for (let at = 0; at < bytes.length; at += 200_000) {
          yield { part: { case: "data" as const, value: bytes.subarray(at, at + 200_000) } };
        }
      }
      const put = await client.put(upload(blobId), withHeaders(owner));
      assert.equal(put.existed, false);
      const pieces: Uint8Array[] = [];
      const request = { blobId, idempotencyKey: owner.idempotencyKey };
      for await (const { part } of client.get(request, withHeaders(owner))) {
        if (part.case === "data") pieces.push(part.value);
      }
      assert.ok(Buffer.concat(pieces).equals(bytes));
      const codeOf = async (call: Promise<unknown>): Promise<Code | undefined> => {
        const error = await call.catch((cause: unknown) => cause);
        return error instanceof ConnectError ? error.code : undefined;
      };
      assert.equal(
        await codeOf(client.put(upload(randomBytes(32)), withHeaders(owner))),
        Code.InvalidArgument,
      );
      const stranger = withHeaders({ ...owner, streamKey: randomBytes(32) });
      assert.equal(await codeOf(client.put(upload(blobId), stranger)), Code.NotFound);
      const nobody = withHeaders({ ...owner, apiKey: "wrong" });
      assert.equal(await codeOf(client.put(upload(blobId), nobody)), Code.Unauthenticated);
    });
  }
}
