import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { HoldfastError } from "../../../src/protocol/index.ts";
import { Client } from "../../../src/client/index.ts";
import { nodeSealing } from "../../../src/sealing/node.ts";
import { encodeBase64Url } from "../../../src/transport/connect/base64.ts";
import { blobHeaders, type Owner, putParts, uploadOf } from "./blob-client.ts";
import { transport, TRANSPORTS } from "./dial.ts";
import { ask, eventually, readJson, startHttp, VERSIONS } from "./rig.ts";

const API_KEY = "hf_canary-api-key";
const STREAM_NAME = "canary-idempotency-key";
const WORDS = "canary-words-of-a-user";
const HEADER = "canary-header";
const HOME_KEY = Buffer.from("canary-home-key-of-just-32-bytes");

/** Every way a secret may be written. */
function spellings(secret: Uint8Array): string[] {
  const bytes = Buffer.from(secret);
  return [
    bytes.toString("latin1"),
    bytes.toString("hex"),
    bytes.toString("base64"),
    bytes.toString("base64url"),
    bytes.join(","),
  ];
}

test("E4: no key, no name and no word of a user is in the logs, the metrics or an error", async (t) => {
  const sealing = nodeSealing();
  const streamKey = sealing.deriveStreamKey(HOME_KEY, STREAM_NAME);
  const rig = await startHttp(t, {
    http: {
      failedSignIns: { burst: 1_000, refillMs: 1 },
      authenticate: async (apiKey) => {
        if (apiKey !== API_KEY) throw new HoldfastError("unauthenticated", "no valid API key; bring one");
        return { principal: "alice" };
      },
    },
  });
  const told: string[] = [];

  for (const name of TRANSPORTS) {
    const connect = transport(t, rig, name);
    const client = new Client({ connect, sealing, homeKey: HOME_KEY, credentials: async () => API_KEY });
    const stream =
      name === "http2"
        ? await client.open({ idempotencyKey: STREAM_NAME })
        : await client.takeOver(STREAM_NAME);
    await stream.send(Buffer.from(WORDS));
    for await (const event of stream.events) if (Buffer.from(event.body).includes(WORDS)) break;
    await client.close();
  }

  const owner: Owner = { apiKey: API_KEY, idempotencyKey: STREAM_NAME, streamKey };
  const blob = Buffer.from(WORDS.repeat(100));
  for (const version of VERSIONS) {
    await putParts(rig, version, owner, uploadOf(owner, blob));
    const calls = [
      "StreamService/Stream",
      "StreamService/Attach",
      "StreamService/Append",
      "StreamService/Listen",
      "BlobService/Put",
      "BlobService/Get",
    ];
    const keys = [
      { apiKey: `${API_KEY}-wrong` },
      {},
      { streamKey: Buffer.from(WORDS) },
      { idempotencyKey: `${STREAM_NAME}-other` },
    ];
    for (const call of calls) {
      for (const changed of keys) {
        const headers = { ...blobHeaders({ ...owner, ...changed }), "x-other": HEADER, cookie: HEADER };
        const types = [
          "application/connect+proto",
          "application/connect+json",
          "application/proto",
          "application/json",
          HEADER,
        ];
        for (const type of types) {
          const asked = {
            method: "POST",
            path: `/holdfast.v1.${call}`,
            headers: { ...headers, "content-type": type },
            body: WORDS,
          };
          told.push((await ask(rig, version, asked)).body.toString("latin1"));
        }
      }
    }
    const host = { headers: { ...blobHeaders(owner), host: HEADER } };
    told.push((await ask(rig, version, { path: `/${HEADER}?${WORDS}`, ...host })).body.toString());
    told.push((await ask(rig, version, { path: `/${HEADER}?${WORDS}` })).body.toString());
    told.push(
      (
        await ask(rig, version, { path: "/health", headers: { origin: `https://${HEADER}` } })
      ).body.toString(),
    );
    told.push((await ask(rig, version, { path: "/metrics" })).body.toString());
  }
  await eventually(
    () => rig.logLines.filter((line) => line.includes("connection over")).length >= 3,
    "all lines are there",
  );

  const output = [...rig.logLines, ...told].join("\n");
  const secrets = [API_KEY, STREAM_NAME, WORDS, HEADER].map((text) => Buffer.from(text));
  for (const secret of [...secrets, HOME_KEY, streamKey]) {
    for (const spelling of spellings(secret)) assert.ok(!output.includes(spelling), spelling);
  }
  assert.ok(!output.includes(encodeBase64Url(streamKey)));
  assert.equal(rig.server.counters.bugs, 0);
});

test("a line names its stream by a hash that an operator can compute", async (t) => {
  const rig = await startHttp(t);
  const owner: Owner = { apiKey: "hf_alice", idempotencyKey: "absent", streamKey: new Uint8Array(32) };
  await putParts(rig, 1, owner, uploadOf(owner, new Uint8Array(3)));
  await eventually(() => rig.logLines.some((line) => line.includes("blob_put")), "the line is there");
  const line = readJson(rig.logLines.find((each) => each.includes("blob_put")));
  const hash = createHash("sha256").update('["alice","absent"]').digest("hex").slice(0, 12);
  const { requestId, durationMs, bytesIn, bytesOut, time, level, pid, hostname, remote, ...rest } =
    Object.fromEntries(line);
  assert.deepEqual(rest, {
    kind: "blob_put",
    method: "POST",
    http: 1,
    principal: "alice",
    stream: hash,
    status: 200,
    msg: "request",
  });
  for (const count of [durationMs, bytesIn, bytesOut, time, level, pid]) assert.equal(typeof count, "number");
  assert.ok(Number(bytesIn) > 0 && Number(bytesOut) > 0);
  for (const text of [requestId, hostname, remote]) assert.equal(typeof text, "string");
});

test("a bug of the handler is one line with its stack, an internal error for the client, and nothing else breaks", async (t) => {
  const rig = await startHttp(t, {
    http: { authenticate: () => Promise.reject(new TypeError("planted bug")) },
  });
  const headers = { "content-type": "application/proto", authorization: "Bearer x" };
  const answer = await ask(rig, 2, { method: "POST", path: "/holdfast.v1.StreamService/Append", headers });
  assert.equal(answer.status, 500);
  assert.doesNotMatch(answer.body.toString(), /planted/);
  const at = rig.logLines.findIndex((line) => line.includes("planted bug"));
  const [line] = rig.logLines.splice(at, 1);
  assert.match(line ?? "", /TypeError: planted bug\\n\s+at /);
  assert.equal(rig.server.counters.bugs, 1);
  assert.equal((await ask(rig, 2, { path: "/health" })).status, 200);
});
