/**
 * A provider's own history survives tool turns, although OpenAI's shape cannot carry it.
 *
 * The provider signs its reasoning and refuses a continuation that lacks the signature. No OpenAI client has it to send back.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI, { BadRequestError } from "openai";
import { SIGNATURE } from "../../agent/models/providers/formats.ts";
import { anthropicProvider, bySteps } from "../../agent/models/providers/scripted.ts";
import { Notes } from "./note-tool.ts";
import { runnableNote } from "./runnable-note.ts";
import { assertEachExtendsTheOneBefore, LOCAL, type ServedGateway, serveGateway } from "./served-gateway.ts";

const note = (text: string) => ({ calls: [{ name: "note", args: { file: "a.txt", text } }] });

const SCRIPT = bySteps({
  "Write two notes.": [
    { thinking: "One after the other.", ...note("one") },
    { thinking: "Now the other.", ...note("two") },
    { thinking: "That is all.", text: "Both are written." },
  ],
  "Thanks.": [{ text: "You are welcome." }],
});

/** As its users do: the SDK sends everything back that it knows. */
function runNotes(
  { baseURL, apiKey }: ServedGateway,
  notes: Notes,
  messages: OpenAI.ChatCompletionMessageParam[],
) {
  return new OpenAI({ baseURL, apiKey, maxRetries: 0 }).chat.completions.runTools({
    model: LOCAL,
    messages,
    tools: [runnableNote(notes)],
    stream: true,
  });
}

test("with reuse the provider gets its signed reasoning back, in the turn and in the next", async (t) => {
  const provider = await anthropicProvider(t, SCRIPT);
  const gateway = await serveGateway(t, { provider, format: "anthropic" });
  const notes = new Notes(gateway.workspace);
  const first = runNotes(gateway, notes, [{ role: "user", content: "Write two notes." }]);
  assert.equal(await first.finalContent(), "Both are written.");
  const second = runNotes(gateway, notes, [...first.messages, { role: "user", content: "Thanks." }]);
  assert.equal(await second.finalContent(), "You are welcome.");

  assert.ok(!JSON.stringify(first.messages).includes(SIGNATURE), "the client never had it");
  assert.deepEqual(notes.linesOf("a.txt"), ["one", "two"]);
  assert.equal(provider.calls.length, 4);
  assertEachExtendsTheOneBefore(provider.calls);
  assert.deepEqual(await gateway.answers(), { "fresh new": 1, continued_turn: 2, continued_conversation: 1 });
});

test("HOLDFAST_SESSION_REUSE=0: the same provider refuses what the OpenAI shape can carry", async (t) => {
  const provider = await anthropicProvider(t, SCRIPT);
  const env = { HOLDFAST_SESSION_REUSE: "0" };
  const gateway = await serveGateway(t, { provider, format: "anthropic", env });
  const notes = new Notes(gateway.workspace);
  const run = runNotes(gateway, notes, [{ role: "user", content: "Write two notes." }]);
  await assert.rejects(run.finalContent(), BadRequestError);
  assert.deepEqual(notes.linesOf("a.txt"), ["one"]);
  assert.equal(provider.calls.length, 2, "the second was refused");
  assert.deepEqual(await gateway.answers(), { "fresh reuse_off": 2 });
});
