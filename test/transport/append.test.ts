import assert from "node:assert/strict";
import { once } from "node:events";
import { type ClientRequest, type IncomingMessage, request } from "node:http";
import { test } from "node:test";
import { decodeAppendOutcome, encodeAppend } from "../../src/protocol/append-codec.ts";
import { encodeClientFrame } from "../../src/protocol/frame-codec.ts";
import { envelopes } from "../../src/transport/connect/envelopes.ts";
import { HEADERS } from "./raw-call.ts";
import { ATTACH } from "./split-rig.ts";
import { streamServer } from "./stream-server.ts";

const UNARY = { ...HEADERS, "content-type": "application/proto" };

/** On a connection of its own. */
function post(url: string, headers: Record<string, string>): ClientRequest {
  const made = request(url, { method: "POST", headers, agent: false });
  made.on("error", () => undefined);
  return made;
}

function answerTo(made: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve) => {
    made.on("response", (response) => {
      response.on("error", () => undefined);
      resolve(response);
    });
  });
}

async function bodyOf(response: IncomingMessage): Promise<Uint8Array> {
  const pieces: Buffer[] = [];
  for await (const piece of response) if (Buffer.isBuffer(piece)) pieces.push(piece);
  return Buffer.concat(pieces);
}

test("E1: an attach with a wrong stream key under the same tag does not push the right one out", async (t) => {
  const { url } = await streamServer(t);
  const attachWith = async (byte: number): Promise<ClientRequest> => {
    const key = { "x-idempotent-encryption-key": Buffer.alloc(32, byte).toString("base64url") };
    const headers = { ...HEADERS, ...key, "x-holdfast-connection": "tag" };
    const attach = post(`${url}/holdfast.v1.StreamService/Attach`, headers);
    attach.end(envelopes([encodeClientFrame({ ...ATTACH, journalId: `journal-${byte}` }, "key")]));
    await once(await answerTo(attach), "data");
    return attach;
  };
  const right = await attachWith(7);
  const wrong = await attachWith(8);
  const frames = [{ kind: "chunk", seqno: 0, writerEpoch: 1, body: new Uint8Array(1) }] as const;
  const call = post(`${url}/holdfast.v1.StreamService/Append`, UNARY);
  call.end(
    encodeAppend({ idempotencyKey: "key", connectionTag: "tag", listener: "", detach: false, frames }),
  );
  assert.deepEqual(decodeAppendOutcome(await bodyOf(await answerTo(call))), { nextSeqno: 1 });
  right.destroy();
  wrong.destroy();
});

test("A2: an append that repeats a durable seqno with other content is answered with the conflict, not with success", async (t) => {
  const { url } = await streamServer(t);
  const headers = { ...HEADERS, "x-holdfast-connection": "tag" };
  const attach = post(`${url}/holdfast.v1.StreamService/Attach`, headers);
  attach.end(envelopes([encodeClientFrame(ATTACH, "key")]));
  const response = await answerTo(attach);
  await once(response, "data");
  const append = async (text: string): Promise<string | number | undefined> => {
    const frames = [{ kind: "chunk", seqno: 0, writerEpoch: 1, body: Buffer.from(text) }] as const;
    const named = { idempotencyKey: "key", connectionTag: "tag", listener: "", detach: false };
    const call = post(`${url}/holdfast.v1.StreamService/Append`, UNARY);
    call.end(encodeAppend({ ...named, frames }));
    const outcome = decodeAppendOutcome(await bodyOf(await answerTo(call)));
    return "error" in outcome ? outcome.error.code : outcome.nextSeqno;
  };
  assert.equal(await append("one"), 1);
  assert.equal(await append("one"), 1);
  assert.equal(await append("two"), "seqno_conflict");
  attach.destroy();
});
