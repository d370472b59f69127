/**
 * Stock SDKs with `holdfast/fetch` while `holdfast serve`, a real process with its database, is killed or stopped in the middle of a conversation and started
 * again. Their users do nothing, and see nothing. The provider says the same each time: what a model that varies costs is for the tests of the model's call.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { holdfast } from "../../src/fetch/index.ts";
import { NOTE, noteArgs, Notes } from "../gateway/clients/note-tool.ts";
import { runnable } from "../gateway/clients/runnable-note.ts";
import { LOCAL, REHEARSAL } from "../gateway/clients/served-gateway.ts";
import { StagedNotes, WRITTEN } from "../gateway/clients/staged-notes.ts";
import { type Killing, killAtEachStage } from "../gateway/clients/stages.ts";
import { StandingGateway } from "../gateway/clients/standing-gateway.ts";

function clientOf({ baseURL, apiKey }: StandingGateway): OpenAI {
  return new OpenAI({ baseURL, apiKey, fetch: holdfast({ baseURL }), maxRetries: 0 });
}

async function converse({ gateway, notes, staged, onText }: Killing, asked: string): Promise<string> {
  const shared = {
    model: LOCAL,
    messages: [{ role: "user" as const, content: asked }],
    tools: [runnable(staged.tool(notes))],
  };
  const runner = clientOf(gateway).chat.completions.runTools({ ...shared, stream: true });
  runner.on("content", onText);
  return (await runner.finalContent()) ?? "";
}

test("openai SDK: killed at each stage, its user sees nothing", (t) =>
  killAtEachStage(t, { isStreamed: true }, converse));

test("openai SDK by Responses: killed at each stage, its user sees nothing", (t) =>
  killAtEachStage(t, { isStreamed: true }, async ({ gateway, notes, staged, onText }, asked) => {
    const { responses } = clientOf(gateway);
    const shared = { model: LOCAL, tools: [{ type: "function", ...NOTE, strict: false } as const] };
    const ask = (more: Pick<OpenAI.Responses.ResponseCreateParams, "input" | "previous_response_id">) =>
      responses
        .stream({ ...shared, ...more })
        .on("response.output_text.delta", ({ delta }) => onText(delta))
        .finalResponse();
    const { id, output } = await ask({ input: asked });
    const call = output.find((item) => item.type === "function_call");
    assert.ok(call !== undefined);
    const result = await staged.tool(notes)(noteArgs.parse(JSON.parse(call.arguments)));
    const input = [{ type: "function_call_output" as const, call_id: call.call_id, output: result }];
    return (await ask({ input, previous_response_id: id })).output_text;
  }));

test("Anthropic SDK: killed at each stage, its user sees nothing", (t) =>
  killAtEachStage(t, { isStreamed: true }, async ({ gateway, notes, staged, onText }, asked) => {
    const baseURL = gateway.baseURL.replace(/\/v1$/, "");
    const { messages } = new Anthropic({
      baseURL,
      apiKey: gateway.apiKey,
      fetch: holdfast({ baseURL }),
      maxRetries: 0,
    });
    const tools = [
      {
        name: NOTE.name,
        description: NOTE.description,
        input_schema: { ...NOTE.parameters, type: "object" as const },
      },
    ];
    const said: Anthropic.MessageParam[] = [{ role: "user", content: asked }];
    for (;;) {
      const stream = messages.stream({ model: LOCAL, max_tokens: 1_000, tools, messages: said });
      const { content } = await stream.on("text", onText).finalMessage();
      const call = content.find((block) => block.type === "tool_use");
      if (call === undefined)
        return content.map((block) => (block.type === "text" ? block.text : "")).join("");
      const result = await staged.tool(notes)(noteArgs.parse(call.input));
      said.push(
        { role: "assistant", content },
        { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: result }] },
      );
    }
  }));

test("stopped in good order in the middle of an answer: its user sees nothing", async (t) => {
  const staged = new StagedNotes();
  const provider = await staged.provider(t);
  const gateway = await StandingGateway.begin(t, { provider });
  const notes = new Notes(gateway.workspace);
  const stop = staged.holdProvider(1, 4);
  const heard = Promise.withResolvers<void>();
  const onText = (text: string): void => void (text.includes("is") && heard.resolve());
  const answer = converse({ gateway, notes, staged, onText }, "a.txt");
  await stop.reached(answer);
  await Promise.race([heard.promise, answer]);
  await gateway.crash("SIGTERM");
  stop.release();
  assert.equal(await answer, WRITTEN);
  assert.deepEqual(notes.linesOf("a.txt"), ["one"]);
});

test("the rehearsal model, killed in the middle of its text: every word once", async (t) => {
  const gateway = await StandingGateway.begin(t, {});
  const messages = [{ role: "user" as const, content: "count to 40" }];
  const stream = await clientOf(gateway).chat.completions.create({
    model: REHEARSAL,
    messages,
    stream: true,
  });
  let text = "";
  let killed: Promise<void> | undefined;
  for await (const { choices } of stream) {
    text += choices[0]?.delta.content ?? "";
    killed ??= text.includes("3") ? gateway.crash() : undefined;
  }
  await killed;
  assert.equal(text.trim(), Array.from({ length: 40 }, (_, at) => at + 1).join(" "));
});
