/**
 * Many conversations at once over one gateway, each with parallel tools, several steps and a next message.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { type Said } from "../../agent/models/providers/formats.ts";
import { openaiProvider, type Script, textOf } from "../../agent/models/providers/scripted.ts";
import { Notes } from "./note-tool.ts";
import { runnableNote } from "./runnable-note.ts";
import { LOCAL, serveGateway } from "./served-gateway.ts";

const CONVERSATIONS = 40;
const AT_ONCE = 8;

/** The user's message names the conversation, and so do the tools' arguments and every answer. */
const script: Script = (messages) => {
  const asking = messages.findLastIndex(({ role }) => role === "user");
  const name = textOf(messages[asking]);
  const note = (file: string, text: string) => ({ name: "note", args: { file: `${name}-${file}`, text } });
  const steps: readonly Said[] = [
    { thinking: "Two at once.", calls: [note("a", "one"), note("b", "one")] },
    { text: "One more.", calls: [note("a", "two")] },
  ];
  const isThanks = name.startsWith("thanks");
  const step = messages.slice(asking).filter(({ role }) => role === "assistant").length;
  return (isThanks ? undefined : steps[step]) ?? { text: `${name} is done` };
};

test(`${CONVERSATIONS} conversations, ${AT_ONCE} at once: each goes on in its own session`, async (t) => {
  const provider = await openaiProvider(t, script);
  const gateway = await serveGateway(t, { provider });
  const openai = new OpenAI({ baseURL: gateway.baseURL, apiKey: gateway.apiKey, maxRetries: 0 });
  const notes = new Notes(gateway.workspace);
  const tools = [runnableNote(notes)];
  const run = (messages: OpenAI.ChatCompletionMessageParam[]) =>
    openai.chat.completions.runTools({ model: LOCAL, messages, tools, stream: true });

  async function converse(name: string): Promise<void> {
    const first = run([{ role: "user", content: name }]);
    assert.equal(await first.finalContent(), `${name} is done`);
    const next = run([...first.messages, { role: "user", content: `thanks, ${name}` }]);
    assert.equal(await next.finalContent(), `thanks, ${name} is done`);
    assert.deepEqual(notes.linesOf(`${name}-a`), ["one", "two"]);
    assert.deepEqual(notes.linesOf(`${name}-b`), ["one"]);
  }

  const names = Array.from({ length: CONVERSATIONS }, (_, at) => `user${at}`).values();
  const oneAfterTheOther = async (): Promise<void> => {
    for (const name of names) await converse(name);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, oneAfterTheOther));
  assert.equal(provider.calls.length, 4 * CONVERSATIONS);
  assert.deepEqual(await gateway.answers(), {
    "fresh new": CONVERSATIONS,
    continued_turn: 2 * CONVERSATIONS,
    continued_conversation: CONVERSATIONS,
  });
});
