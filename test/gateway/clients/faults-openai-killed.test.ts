/**
 * The `openai` SDK while `holdfast serve` is killed with SIGKILL at each stage of a conversation, and started again.
 *
 * A request that was not answered at all the SDK sends again by itself. An answer that breaks off it throws, and the application asks again with
 * what it has.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI, { APIUserAbortError } from "openai";
import { Notes } from "./note-tool.ts";
import { runnable } from "./runnable-note.ts";
import { LOCAL } from "./served-gateway.ts";
import { StagedNotes, WRITTEN } from "./staged-notes.ts";
import { type Killing, killAtEachStage } from "./stages.ts";
import { StandingGateway } from "./standing-gateway.ts";

const TRIES_MAX = 3;

async function run(killing: Killing, asked: string, stream: boolean): Promise<string> {
  const { gateway, notes, staged } = killing;
  const openai = new OpenAI({ baseURL: gateway.baseURL, apiKey: gateway.apiKey });
  const tools = [runnable(staged.tool(notes))];
  let messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: asked }];
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const shared = { model: LOCAL, messages, tools };
    const runner = stream
      ? openai.chat.completions.runTools({ ...shared, stream }).on("content", killing.onText)
      : openai.chat.completions.runTools({ ...shared, stream });
    try {
      return (await runner.finalContent()) ?? "";
    } catch (cause) {
      assert.ok(stream, `what is not streamed the SDK asks for again: ${String(cause)}`);
      messages = [...runner.messages];
    }
  }
  return assert.fail("it never came whole");
}

test("openai SDK, streamed runTools: the gateway is killed at each stage, the tool runs once", (t) =>
  killAtEachStage(t, { isStreamed: true }, (killing, asked) => run(killing, asked, true)));

test("openai SDK, runTools: the gateway is killed at each stage, the tool runs once", (t) =>
  killAtEachStage(t, { isStreamed: false }, (killing, asked) => run(killing, asked, false)));

const GENERATING = String.raw`holdfast_gateway_sessions\{state="generating"\}`;

test("openai SDK: killed when the answer was complete and no client had it, asking again costs no model call", async (t) => {
  const staged = new StagedNotes();
  const provider = await staged.provider(t);
  const gateway = await StandingGateway.begin(t, { provider });
  const notes = new Notes(gateway.workspace);
  const openai = new OpenAI({ baseURL: gateway.baseURL, apiKey: gateway.apiKey });
  const ask = () =>
    openai.chat.completions.runTools({
      model: LOCAL,
      messages: [{ role: "user", content: "a.txt" }],
      tools: [runnable(staged.tool(notes))],
      stream: true,
    });
  const stop = staged.holdProvider(0, 3);
  const left = ask().on("content", () => left.abort());
  await assert.rejects(left.done(), APIUserAbortError);
  await gateway.isLeft();
  stop.release();
  while ((await gateway.metric(GENERATING)) > 0);
  await gateway.crash();
  assert.equal(await ask().finalContent(), WRITTEN);
  assert.deepEqual(notes.linesOf("a.txt"), ["one"]);
  assert.equal(provider.calls.length, 2, "one for each step");
  assert.deepEqual(await gateway.answers(), { replayed: 1, continued_turn: 1 });
});
