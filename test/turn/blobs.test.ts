/**
 * Bytes that lie in blobs: looked for, asked for, checked; and the blobs that the client is asked to keep.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { idOf, TurnOfFacts, wanted } from "./turn-of-facts.ts";

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
