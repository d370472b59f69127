/** A conversation rebuilt for display: how much of it is read at a time. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "../../../src/protocol/message.ts";
import { fullConversation } from "../../../src/client/agent/full-conversation.ts";
import { ConversationStateSchema } from "../../../src/protocol/messages.ts";

test("a long conversation is read in order, a few turns at a time, so that a page stays awake", async () => {
  const turns = Array.from({ length: 100 }, (_, at) => new Uint8Array(32).fill(at));
  let underWay = 0;
  let most = 0;
  const blobs = {
    get: async () => {
      most = Math.max(most, ++underWay);
      await new Promise((resolve) => setImmediate(resolve));
      underWay--;
      return undefined;
    },
  };
  const full = await fullConversation(blobs, create(ConversationStateSchema, { turns }));
  assert.deepEqual(
    full.turns.map((turn) => turn.kind === "missing" && turn.blobId.slice(0, 2)),
    turns.map(([first = 0]) => first.toString(16).padStart(2, "0")),
  );
  assert.ok(most <= 32, `${most} at once`);
});
