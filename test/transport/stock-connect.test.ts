/**
 * Connect's own clients against our server: what we write by hand is what Connect says.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { type Client, createClient, type Transport } from "@connectrpc/connect";
import * as connectNode from "@connectrpc/connect-node";
import * as connectWeb from "@connectrpc/connect-web";
import { ErrorCode } from "../../src/protocol/gen/holdfast/v1/errors.ts";
import { StreamService } from "../../src/protocol/gen/holdfast/v1/stream_pb.ts";
import {
  attach,
  chunk,
  failure,
  headers,
  Hears,
  KEY,
  next,
  nextEvent,
  ownCode,
  Says,
} from "./stock-connect.ts";
import { streamServer } from "./stream-server.ts";

type StreamClient = Client<typeof StreamService>;

const bidi: Readonly<Record<string, (baseUrl: string) => Transport>> = {
  "connect-node": (baseUrl) => connectNode.createConnectTransport({ baseUrl, httpVersion: "2" }),
  "connect-node with JSON": (baseUrl) =>
    connectNode.createConnectTransport({ baseUrl, httpVersion: "2", useBinaryFormat: false }),
};

const split: Readonly<Record<string, (baseUrl: string) => Transport>> = {
  "connect-node over HTTP/1.1": (baseUrl) =>
    connectNode.createConnectTransport({ baseUrl, httpVersion: "1.1" }),
  "connect-node over HTTP/2": (baseUrl) => connectNode.createConnectTransport({ baseUrl, httpVersion: "2" }),
  "connect-web": (baseUrl) => connectWeb.createConnectTransport({ baseUrl, useBinaryFormat: true }),
  "connect-web with JSON": (baseUrl) => connectWeb.createConnectTransport({ baseUrl }),
};

/** Calls that are still open when the test is over are aborted. */
function untilOver(t: TestContext): AbortSignal {
  const abort = new AbortController();
  t.after(() => abort.abort());
  return abort.signal;
}

for (const [name, transport] of Object.entries(bidi)) {
  test(`${name}: Stream opens, echoes, acknowledges, resumes after a break and ends`, async (t) => {
    const { url } = await streamServer(t);
    const client: StreamClient = createClient(StreamService, transport(url));
    const broken = new AbortController();
    const says = new Says();
    const frames = new Hears(client.stream(says, { headers, signal: broken.signal }));
    says.say(attach("OPEN"));
    const { value: welcome } = await next(frames, "welcomeMessage");
    assert.equal(welcome.nextSeqno, 0);
    assert.equal(welcome.resumed, false);
    says.say(chunk(0, "one", welcome.writerEpoch), chunk(1, "two", welcome.writerEpoch));
    assert.equal(await nextEvent(frames), "1 one");
    assert.equal(await nextEvent(frames), "2 two");
    broken.abort();
    assert.equal(ownCode(await failure(frames)).connect, "Canceled");

    const again = new Says();
    const resumed = new Hears(client.stream(again, { headers, signal: untilOver(t) }));
    again.say(attach("RESUME", "1"));
    const { value: back } = await next(resumed, "welcomeMessage");
    assert.equal(back.nextSeqno, 2);
    assert.equal(back.eventHead, "2");
    assert.equal(await nextEvent(resumed), "2 two");
    again.say(chunk(2, "bye", back.writerEpoch));
    assert.equal((await next(resumed, "seqnoAck")).value, 2);
    assert.equal(await nextEvent(resumed), "3 bye");
    again.finish();
    assert.equal(await resumed.next(), undefined);
  });

  test(`${name}: an error decodes as Connect's, with ours in its details`, async (t) => {
    const { url } = await streamServer(t);
    const client: StreamClient = createClient(StreamService, transport(url));
    const absent = new Hears(client.stream(once(attach("RESUME")), { headers }));
    assert.deepEqual(ownCode(await failure(absent)), {
      connect: "NotFound",
      own: ErrorCode.NOT_FOUND,
      retryAfterMs: undefined,
    });
    const { authorization: _, ...anonymous } = headers;
    const stranger = new Hears(client.stream(once(attach("OPEN")), { headers: anonymous }));
    assert.equal(ownCode(await failure(stranger)).own, ErrorCode.UNAUTHENTICATED);
    const other = new Hears(client.stream(once(attach("OPEN", "0", "other")), { headers }));
    assert.equal(ownCode(await failure(other)).own, ErrorCode.INVALID_FRAME);
  });
}

/** The request stays open: ending it would be a detach. */
async function* once(request: ReturnType<typeof attach>) {
  yield request;
  await new Promise(() => undefined);
}

for (const [name, transport] of Object.entries(split)) {
  test(`${name}: Attach and Append open, echo, acknowledge, resume after a break and end`, async (t) => {
    const { url } = await streamServer(t);
    const client: StreamClient = createClient(StreamService, transport(url));
    const tagged = { ...headers, "x-holdfast-connection": "tag-1" };
    const broken = new AbortController();
    const frames = new Hears(client.attach(attach("OPEN"), { headers: tagged, signal: broken.signal }));
    const { value: welcome } = await next(frames, "welcomeMessage");
    const epoch = welcome.writerEpoch;
    const append = (seqno: number, text: string, connectionTag = "tag-1") =>
      client.append({ idempotencyKey: KEY, connectionTag, frames: [chunk(seqno, text, epoch)] }, { headers });
    // The later one may arrive first: the server puts them in order.
    const answers = await Promise.all([append(1, "two"), append(0, "one")]);
    for (const answer of answers) assert.equal(answer.error, undefined);
    assert.equal(Math.max(...answers.map(({ nextSeqno }) => nextSeqno ?? 0)), 2);
    assert.equal(await nextEvent(frames), "1 one");
    assert.equal(await nextEvent(frames), "2 two");
    broken.abort();
    await failure(frames);

    const resumed = new Hears(
      client.attach(attach("RESUME", "2"), {
        headers: { ...tagged, "x-holdfast-connection": "tag-2" },
        signal: untilOver(t),
      }),
    );
    await next(resumed, "welcomeMessage");
    assert.equal((await append(2, "three", "tag-3")).error?.code, ErrorCode.CONNECTION_LOST);
    assert.equal((await append(2, "bye", "tag-2")).nextSeqno, 3);
    assert.equal(await nextEvent(resumed), "3 bye");
    const detach = { idempotencyKey: KEY, connectionTag: "tag-2", detach: true };
    await client.append(detach, { headers });
    assert.equal(await resumed.next(), undefined);
  });

  test(`${name}: a stream joins a listener by an append`, async (t) => {
    const { url } = await streamServer(t);
    const client: StreamClient = createClient(StreamService, transport(url));
    const { authorization } = headers;
    const heard = new Hears(
      client.listen({ listener: "page" }, { headers: { authorization }, signal: untilOver(t) }),
    );
    const sign = await heard.next();
    assert.equal(sign?.connectionTag, "");
    const join = { idempotencyKey: KEY, listener: "page", connectionTag: "tag-1", frames: [attach("OPEN")] };
    assert.equal((await client.append(join, { headers })).error, undefined);
    const first = await heard.next();
    const response = first?.frames[0]?.response;
    assert.ok(first?.connectionTag === "tag-1" && response?.case === "welcomeMessage");
    const bye = chunk(0, "bye", response.value.writerEpoch);
    const said = { idempotencyKey: KEY, connectionTag: "tag-1", frames: [bye], detach: false };
    assert.equal((await client.append(said, { headers })).nextSeqno, 1);
    let texts = "";
    while (!texts.includes("bye")) {
      const message = await heard.next();
      for (const frame of message?.frames ?? []) {
        if (frame.response.case === "serverChunk")
          texts += Buffer.from(frame.response.value.message).toString();
      }
    }
    await client.append({ ...said, frames: [], detach: true }, { headers });
    const last = await heard.next();
    assert.equal(last?.closed, true);
  });

  test(`${name}: errors of both halves decode`, async (t) => {
    const { url } = await streamServer(t);
    const client: StreamClient = createClient(StreamService, transport(url));
    const absent = new Hears(client.attach(attach("RESUME"), { headers }));
    assert.equal(ownCode(await failure(absent)).own, ErrorCode.NOT_FOUND);
    const malformed = client.append({ idempotencyKey: "other", frames: [] }, { headers });
    await assert.rejects(malformed, { code: 3, rawMessage: /different streams/ });
    const { authorization: _, ...anonymous } = headers;
    await assert.rejects(client.append({ idempotencyKey: KEY }, { headers: anonymous }), { code: 16 });
  });
}
