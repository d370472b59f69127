/**
 * A client that will be killed: keeps a few streams going, reads them, runs their tools, and writes
 * down whatever it sees and does.
 *
 * Started again it goes on from its journals. When the parent says "finish", it opens nothing new and
 * exits once every stream is over.
 */
import { setTimeout as sleep } from "node:timers/promises";
import {
  type ClientStream,
  HoldfastError,
  openClient,
  STREAM_DEFAULTS,
  type Tools,
} from "../../src/client-node/index.ts";
import { fetchConnect } from "../../src/transport/fetch-transport.ts";
import { http2Connect } from "../../src/transport/node/http2-client.ts";
import type { Connect } from "../../src/transport/transport.ts";
import { writeExecResult } from "../../src/tools/results.ts";
import { encodeRequest, encodeWords } from "../simulation/agent-messages.ts";
import { foldEvent } from "../simulation/reading.ts";
import { successOf } from "../simulation/sim-tools.ts";
import { UserBlobs } from "../simulation/user-blobs.ts";
import { History, readHistory } from "./history.ts";
import { readSetup } from "./setup.ts";

const OPEN_STREAMS = 3;

const setup = readSetup();
const history = new History(setup.history);
const life = `life-${String(process.pid)}-${String(Date.now())}`;

/** Which tag speaks on which stream, and what it said last: known from what earlier lives wrote down. */
const tags = new Map<string, string>();
const indexes = new Map<string, number>();
for (const fact of readHistory(setup.history)) {
  if (fact.kind === "opened") tags.set(fact.key, fact.tag);
  if (fact.kind === "said") indexes.set(fact.tag, Math.max(fact.index, indexes.get(fact.tag) ?? 0));
}
history.add({ kind: "life", life });

const finishing = new AbortController();
process.on("message", () => finishing.abort());
process.on("disconnect", () => process.exit(1));

const tools: Tools = {
  policy: ({ tool }) => ({ repeatable: tool === "read", needsApproval: tool === "write" }),
  approve: async () => {
    await sleep(Math.random() * 100);
    return { allowed: Math.random() < 0.8, untilMs: Date.now() + 60_000 };
  },
  run: async (exec, { idempotencyKey: key }) => {
    await sleep(Math.random() * 150);
    history.add({ kind: "effect", key, execId: exec.execId, repeatable: exec.tool === "read" });
    await sleep(Math.random() * 150);
    return writeExecResult(exec, successOf(exec));
  },
  stopLeftover: () => undefined,
};

/** Two of the three ways a client can talk; the third is within one process. */
const network =
  setup.transport === "fetch"
    ? fetchConnect({ url: setup.url, shared: true })
    : http2Connect({ url: setup.url });

/** Writes down what is acknowledged as it comes off the network. */
function recorded(connect: Connect): Connect {
  return (meta, handler) =>
    connect(meta, {
      received(frame) {
        const key = meta.idempotencyKey;
        if (frame.kind === "ack") history.add({ kind: "acked", key, nextSeqno: frame.seqno + 1 });
        if (frame.kind === "welcome") history.add({ kind: "acked", key, nextSeqno: frame.nextSeqno });
        handler.received(frame);
      },
      drained: () => handler.drained(),
      closed: (reason) => handler.closed(reason),
    });
}

const client = await openClient({
  url: setup.url,
  apiKey: setup.apiKey,
  directory: setup.directory,
  homeKey: Buffer.from(setup.homeKey, "base64url"),
  connect: recorded(network.connect),
  tools,
  // A stream that is nowhere afterwards could not be compared with anything.
  allowDegraded: false,
  stream: {
    retry: { ...STREAM_DEFAULTS.retry, baseMs: 20, capMs: 200, budget: { burst: 10_000, refillMs: 1 } },
  },
  onBug: (bug) =>
    history.add({ kind: "bug", what: bug instanceof Error ? (bug.stack ?? bug.message) : String(bug) }),
});

const open = new Set<ClientStream>();
/** Answers the turn's questions; these turns ask for no blobs. */
const answers = new UserBlobs();

async function consume(stream: ClientStream): Promise<void> {
  const key = stream.idempotencyKey;
  open.add(stream);
  let unsaid = 0;
  let digest = stream.restored === undefined ? 0 : Number(Buffer.from(stream.restored.state).toString());
  history.add({ kind: "reading", key, cursor: stream.restored?.cursor ?? 0, digest });
  try {
    for await (const { eventId, body, end } of stream.events) {
      history.add({ kind: "event", key, eventId, body: Buffer.from(body).toString("base64"), end });
      digest = foldEvent(digest, body);
      const answer = body.length === 0 ? undefined : answers.answer(key, body);
      if (answer !== undefined) {
        unsaid++;
        stream.send(answer).then(
          () => unsaid--,
          () => undefined,
        );
      }
      // A snapshot must not cover a question whose answer may be lost.
      if (end === undefined && unsaid === 0 && Math.random() < 0.15)
        stream.snapshot(eventId, Buffer.from(String(digest)));
    }
    history.add({ kind: "over", key, outcome: String(await stream.ended) });
  } catch (cause) {
    if (!(cause instanceof HoldfastError)) throw cause;
    history.add({ kind: "bug", what: `an honest client gave up: ${cause.code} ${cause.message}` });
  }
  open.delete(stream);
}

function follow(stream: ClientStream): void {
  consume(stream).catch((cause: unknown) => {
    history.add({ kind: "bug", what: cause instanceof Error ? (cause.stack ?? "") : String(cause) });
  });
}

async function begin(): Promise<void> {
  const tag = `${life}.${String(tags.size)}`;
  const stream = await client.open({
    first: encodeRequest(tag, { beginning: "ask", endless: false, keepsBlobs: false }),
  });
  tags.set(stream.idempotencyKey, tag);
  history.add({ kind: "opened", key: stream.idempotencyKey, tag });
  follow(stream);
}

function speak(stream: ClientStream): void {
  const tag = tags.get(stream.idempotencyKey);
  // A stream whose opening was never written down is only read.
  if (tag === undefined) return;
  const index = (indexes.get(tag) ?? 0) + 1;
  indexes.set(tag, index);
  history.add({ kind: "said", tag, index });
  stream.send(encodeWords(tag, index)).then(
    () => history.add({ kind: "promised", tag, index }),
    () => undefined,
  );
}

function abort(stream: ClientStream): void {
  const key = stream.idempotencyKey;
  history.add({ kind: "abort_wanted", key });
  stream.abort().then(
    () => history.add({ kind: "abort_promised", key }),
    () => undefined,
  );
}

process.send?.("ready");
await client.resumeAll(follow);
while (!finishing.signal.aborted || open.size > 0) {
  if (!finishing.signal.aborted && open.size < OPEN_STREAMS) await begin();
  await sleep(10 + Math.random() * 60);
  const streams = [...open];
  const one = streams[Math.floor(Math.random() * streams.length)];
  if (one === undefined || finishing.signal.aborted) continue;
  if (Math.random() < 0.02) abort(one);
  else speak(one);
}
await client.close();
process.exit(0);
