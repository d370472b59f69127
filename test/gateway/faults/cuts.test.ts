/**
 * The connection is cut after so many bytes of a response: before the first, in the middle of anything, behind the tool calls, behind the
 * finish. The client sends the same again and has the whole answer.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { World } from "../world.ts";
import { converse, numberedModel } from "./conversation.ts";

/** Of the response's bytes, its head included. */
const PLACES = [0.001, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 0.995];

test("cut anywhere, a response comes whole when it is asked for again", async (t) => {
  const world = await World.begin(t, numberedModel());
  const { replies } = await converse(world, async () => assert.fail("nothing was cut"));
  for (const [at, { body }] of replies.entries()) {
    for (const place of PLACES) {
      await t.test(`response ${at + 1} after ${100 * place} % of its bytes`, async (each) => {
        const cut = await World.begin(each, numberedModel());
        let requests = 0;
        const aim = (): void => {
          if (requests++ === at) void cut.cable.cutNextAfter(Math.ceil(place * (body.length + 600)));
        };
        const talk = await converse(cut, async () => undefined, aim);
        assert.ok(talk.retries <= 1);
        // What was handed to the system whole and lost behind it is generated again: nobody can know.
        assert.ok(cut.model.calls.length <= 3 + talk.retries);
        assert.equal(
          cut.gateway.counters.continuedTurns + cut.gateway.counters.continuedConversations >= 2,
          true,
        );
      });
    }
  }
});
