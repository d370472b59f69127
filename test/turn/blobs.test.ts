/**
 * Bytes that lie in blobs: looked for, asked for, checked; and the blobs that the client is asked to keep.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { prepared } from "../../src/turn/found.ts";
import { idOf, type Request, TurnOfFacts, wanted } from "./turn-of-facts.ts";

test("what lies in a blob is fetched before anything is decided by it; then the client is asked for it", () => {
  const bytes = Buffer.from("a large text");
  const blobId = idOf(bytes);
  const turn = TurnOfFacts.asked({ keepsBlobs: true });
  answerSets(turn);
  turn.started();
  turn.planned("a");
  turn.completed();
  turn.issued("a");
  const content = { content: { case: "blobId", value: Buffer.from(blobId, "hex") } } as const;
  const success = { content, sizeBytes: bytes.length, totalLines: 1 };
  const message = { case: "readResult", value: { result: { case: "success", value: success } } } as const;
  turn.say({ case: "execClientMessage", value: { execId: "a", message } });
  assert.equal(wanted(turn), "fetch 1");
  turn.facts.found.fetched.set(blobId, undefined);
  assert.equal(wanted(turn), "get 1");
  const getBlobArgs = { case: "getBlobArgs", value: { blobId: Buffer.from(blobId, "hex") } } as const;
  turn.tell({ case: "kvServerMessage", value: { id: 50, message: getBlobArgs } });
  assert.equal(wanted(turn), "wait");
  const answered = (value: {
    blobData?: Uint8Array;
    uploaded?: boolean;
    notFound?: boolean;
    error?: string;
  }): string => {
    turn.facts.kvAnswers.delete(50);
    turn.say({ case: "kvClientMessage", value: { id: 50, message: { case: "getBlobResult", value } } });
    return wanted(turn);
  };
  assert.match(answered({ notFound: true }), /the client does not have it$/);
  assert.match(answered({ error: "the disk is full" }), /the disk is full$/);
  assert.match(answered({}), /the client sent nothing$/);
  assert.match(answered({ blobData: Buffer.from("other") }), /the client sent other bytes$/);
  assert.match(
    answered({ uploaded: true }),
    /the client sent nothing$/,
    "it was looked for and is not there",
  );
  turn.facts.found.fetched.clear();
  assert.equal(answered({ uploaded: true }), "fetch 1");
  assert.equal(answered({ blobData: bytes }), "complete a done");
  assert.equal(turn.facts.found.learned.get(blobId), turn.facts.found.inHand.get(blobId));
});

/** The client keeps everything that it is asked to keep, also before it is asked. */
function answerSets(turn: TurnOfFacts): void {
  for (;;) {
    const decision = turn.next();
    if (decision.kind !== "keep") return;
    for (const { id, bytes, kind } of decision.blobs) {
      const kvId = turn.facts.kvIdMax + 1;
      const setBlobArgs = {
        case: "setBlobArgs",
        value: { blobId: Buffer.from(id, "hex"), kind, blobData: bytes },
      } as const;
      turn.tell({ case: "kvServerMessage", value: { id: kvId, message: setBlobArgs } });
      turn.say({
        case: "kvClientMessage",
        value: { id: kvId, message: { case: "setBlobResult", value: {} } },
      });
    }
    if (decision.draft === undefined) return;
    turn.facts.found.drafts.push(decision.draft);
    turn.facts.found.drafted = turn.facts.found.conversation.own.length;
  }
}

test("a client that closes without answering for a blob ends the turn; one that keeps none is not asked", () => {
  const blobId = Buffer.alloc(32, 7);
  const system = { content: { case: "blobId", value: blobId } } as const;
  const turn = TurnOfFacts.asked({ systemPrompt: system });
  const hex = blobId.toString("hex");
  assert.equal(wanted(turn), "fetch 1");
  turn.facts.found.fetched.set(hex, undefined);
  assert.match(wanted(turn), /it was not uploaded$/);
  turn.tell({
    case: "kvServerMessage",
    value: { id: 1, message: { case: "getBlobArgs", value: { blobId } } },
  });
  turn.hear({ kind: "close", seqno: 1 });
  assert.match(wanted(turn), /the client does not answer for it$/);
});

test("a checkpoint is published when the client has all of its blobs, and the last one is waited for", () => {
  const turn = TurnOfFacts.asked({ keepsBlobs: true });
  answerSets(turn);
  const ready = turn.next();
  assert.ok(ready.kind === "publish");
  assert.deepEqual(ready.draft.unkept, []);
});

/** As the driver does: what is stored is durable with the next event. */
function store(turn: TurnOfFacts): readonly string[] {
  const decision = turn.next();
  assert.ok(decision.kind === "keep", decision.kind);
  for (const { id } of decision.blobs) turn.facts.found.stored.add(id);
  if (decision.draft !== undefined) prepared(turn.facts.found, decision.draft, decision.ending);
  return decision.blobs.map(({ bytes }) => Buffer.from(bytes).toString());
}

const EARLIER = Buffer.from(JSON.stringify({ role: "user", content: [{ type: "text", text: "Hello" }] }));
const SENT_ALONG: Request = {
  serverKeepsBlobs: true,
  conversationState: { messages: [Buffer.from(idOf(EARLIER), "hex")] },
  preFetchedBlobs: [{ blobId: Buffer.from(idOf(EARLIER), "hex"), blobData: EARLIER }],
  action: { action: { case: "continueAction", value: { asItStands: true } } },
};

test("a server that keeps the conversation stores what came along, and publishes a checkpoint at once", () => {
  const turn = TurnOfFacts.asked(SENT_ALONG);
  assert.deepEqual(store(turn), [EARLIER.toString()], "durable with the first event");
  assert.equal(wanted(turn), "call the model for step 0");
  turn.started();
  turn.completed("Fine.");
  const added = store(turn);
  assert.equal(added.length, 1, "the answer, and no turn for display");
  assert.match(added[0] ?? "", /Fine\./);
  const published = turn.next();
  assert.ok(published.kind === "publish");
  assert.equal(published.draft.state.messages.length, 2);
  assert.deepEqual(published.draft.state.turns, []);
  turn.tell({ case: "conversationCheckpointUpdate", value: published.draft.state });
  assert.equal(wanted(turn), "completed");
});

test("a run after the first event does not store again what came along", () => {
  const turn = TurnOfFacts.asked(SENT_ALONG);
  turn.facts.found.pastHead = 1;
  assert.equal(wanted(turn), "call the model for step 0");
});

test("a conversation whose part the server does not have ends the turn; without its key nothing is kept", () => {
  const { preFetchedBlobs: _, ...named } = SENT_ALONG;
  const turn = TurnOfFacts.asked(named);
  assert.equal(wanted(turn), "fetch 1");
  turn.facts.found.fetched.set(idOf(EARLIER), undefined);
  assert.match(wanted(turn), /the server does not keep it$/);

  const keyless = TurnOfFacts.asked(SENT_ALONG);
  const { opened } = keyless.facts.found;
  assert.ok(opened !== undefined);
  keyless.facts.found.opened = { ...opened, keepsConversation: false };
  assert.equal(wanted(keyless), "call the model for step 0");
  keyless.started();
  keyless.completed("Fine.");
  assert.equal(wanted(keyless), "completed", "without a checkpoint");
});
