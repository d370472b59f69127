/**
 * A conversation with a tool and a second question, as a client has it that sends again whatever did not come whole.
 *
 * Every answer names the model call that it is of, so an answer that is patched together from two shows.
 */
import assert from "node:assert/strict";
import { bodyOf, Exchange, type Line, type Reply, result, said, user } from "../openai-user.ts";
import { lastTold, PacedModel } from "../paced-model.ts";
import type { World } from "../world.ts";

/** Look: a word, a tool. Seen: the answer. Each piece of a text names its call. */
export function numberedModel(): PacedModel {
  return new PacedModel((call, count) => {
    const words = (...all: readonly string[]): string => all.map((word) => `${word}-${count}. `).join("");
    if (lastTold(call).startsWith("Look"))
      return [words("Let", "me", "see"), { tool: "look", args: { at: "a" } }];
    return [words("I", "see", "it", "all")];
  });
}

export interface Talk {
  readonly replies: readonly Reply[];
  /** Requests that had to be sent again. */
  readonly retries: number;
}

const TRIES_MAX = 8;

/** `onBroken` is called when a response came to nothing, `before` ahead of each request. */
export async function converse(
  world: World,
  onBroken: () => Promise<void>,
  before: () => void = () => undefined,
): Promise<Talk> {
  const replies: Reply[] = [];
  let retries = 0;
  const ask = async (messages: readonly Line[]): Promise<Reply> => {
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      before();
      const reply = await new Exchange(world.url, bodyOf(messages)).reply();
      if (reply.isWhole && reply.error === undefined) {
        checkWords(reply);
        replies.push(reply);
        return reply;
      }
      retries++;
      await onBroken();
    }
    return assert.fail("it never came whole");
  };
  const looked = [user("Look there")];
  const first = await ask(looked);
  assert.equal(first.finish, "tool_calls");
  const [call] = first.calls;
  assert.ok(call !== undefined && first.calls.length === 1);
  assert.equal(call.args, '{"at":"a"}');
  const seen = [...looked, said(first), result(call.id, "a house")];
  const second = await ask(seen);
  assert.equal(second.finish, "stop");
  const third = await ask([...seen, said(second), user("And now?")]);
  assert.equal(third.finish, "stop");
  return { replies, retries };
}

/** All words of an answer are of one model call, and none is missing or told twice. */
function checkWords({ text, finish }: Reply): void {
  const expected = finish === "tool_calls" ? "Let me see" : "I see it all";
  const numbers = new Set([...text.matchAll(/-(\d+)\./g)].map(([, number]) => number));
  assert.equal(numbers.size, 1, `an answer of several calls: ${text}`);
  assert.equal(text.replaceAll(/-\d+\./g, "").trim(), expected);
}
