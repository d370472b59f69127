/**
 * A provider's own history survives tool turns, whatever the client's shape is, with a session and without.
 *
 * The provider signs its reasoning and refuses a continuation that lacks the signature. No client has it to send back: a client has a sealed token.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import OpenAI, { BadRequestError } from "openai";
import { SEALED_THOUGHT, SIGNATURE } from "../../agent/models/providers/formats.ts";
import {
  anthropicProvider,
  bySteps,
  responsesProvider,
  type Script,
  type ScriptedProvider,
} from "../../agent/models/providers/scripted.ts";
import { NOTE, noteArgs, Notes } from "./note-tool.ts";
import { runnableNote } from "./runnable-note.ts";
import { assertEachExtendsTheOneBefore, LOCAL, type ServedGateway, serveGateway } from "./served-gateway.ts";
import { StandingGateway } from "./standing-gateway.ts";

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

/** Every request is a stream of its own: what the provider gets back, the client has sent. */
const WITHOUT_SESSIONS = { HOLDFAST_SESSION_REUSE: "0" };

test("chat without a session: the provider continues for a client that sends messages back as it got them, and refuses others", async (t) => {
  const provider = await anthropicProvider(t, SCRIPT);
  const gateway = await serveGateway(t, { provider, format: "anthropic", env: WITHOUT_SESSIONS });
  const notes = new Notes(gateway.workspace);
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: "Write two notes." }];
  const tools = [{ type: "function", function: NOTE } as const];
  for (;;) {
    const asked = { model: LOCAL, messages, tools };
    const { choices } = await clientOf(gateway).chat.completions.create(asked);
    const [choice] = choices;
    assert.ok(choice !== undefined);
    messages.push(choice.message);
    for (const call of choice.message.tool_calls ?? []) {
      assert.ok(call.type === "function");
      const content = notes.add(noteArgs.parse(JSON.parse(call.function.arguments)));
      messages.push({ role: "tool", tool_call_id: call.id, content });
    }
    if (choice.finish_reason === "stop") break;
  }
  assert.ok(!JSON.stringify(messages).includes(SIGNATURE), "the client never had it");
  assert.deepEqual(notes.linesOf("a.txt"), ["one", "two"]);
  assert.equal(provider.calls.length, 3);
  assertEachExtendsTheOneBefore(provider.calls);

  // The SDK's runner sends back what it knows, and nothing else.
  const run = runNotes(gateway, notes, [{ role: "user", content: "Write two notes." }]);
  await assert.rejects(run.finalContent(), BadRequestError);
  assert.equal(provider.calls.length, 5, "the second was refused");
  assert.deepEqual(await gateway.answers(), { "fresh reuse_off": 5 });
});

interface Signer {
  readonly format: "anthropic" | "openai";
  readonly provider: (t: TestContext) => Promise<ScriptedProvider>;
  readonly signature: string;
}

/** OpenAI's items have no role: the steps so far are the calls. */
const BY_CALLS: Script = (items, asked) => {
  const steps = items.filter(({ type }) => type === "function_call");
  return SCRIPT(
    [{ role: "user", content: "Write two notes." }, ...steps.map(() => ({ role: "assistant" }))],
    asked,
  );
};

const SIGNERS: readonly Signer[] = [
  { format: "anthropic", provider: (t) => anthropicProvider(t, SCRIPT), signature: SIGNATURE },
  { format: "openai", provider: (t) => responsesProvider(t, BY_CALLS), signature: SEALED_THOUGHT },
];

const NOTE_TOOL = { type: "function", ...NOTE, strict: false } as const;
const SEALED: Pick<OpenAI.Responses.ResponseCreateParams, "include" | "store"> = {
  include: ["reasoning.encrypted_content"],
  store: false,
};

/** One step of the conversation; the items of it and of the tool's result are added to what is sent next. */
async function step(
  openai: OpenAI,
  notes: Notes,
  items: OpenAI.Responses.ResponseInputItem[],
  asked: object,
): Promise<string> {
  const stream = openai.responses.stream({ model: LOCAL, input: items, tools: [NOTE_TOOL], ...asked });
  const response = await stream.finalResponse();
  for (const item of response.output) {
    if (item.type === "reasoning" || item.type === "message" || item.type === "function_call")
      items.push(item);
  }
  for (const item of response.output) {
    if (item.type !== "function_call") continue;
    const output = notes.add(noteArgs.parse(JSON.parse(item.arguments)));
    items.push({ type: "function_call_output", call_id: item.call_id, output });
  }
  return response.output_text;
}

function forgedOf({ type, summary }: OpenAI.Responses.ResponseReasoningItem, token: string | undefined) {
  return { type, summary, id: "rs_1", ...(token === undefined ? {} : { encrypted_content: token }) };
}

const clientOf = ({ baseURL, apiKey }: ServedGateway) => new OpenAI({ baseURL, apiKey, maxRetries: 0 });

for (const { format, provider: begin, signature } of SIGNERS) {
  test(`${format}: signed reasoning survives tool turns by Responses, without a session and over a kill`, async (t) => {
    const provider = await begin(t);
    const gateway = await StandingGateway.begin(t, { provider, format, env: WITHOUT_SESSIONS });
    const [notes, openai] = [new Notes(gateway.workspace), clientOf(gateway)];
    const signatures = () => JSON.stringify(provider.calls.at(-1)?.body).split(signature).length - 1;
    const items: OpenAI.Responses.ResponseInputItem[] = [{ role: "user", content: "Write two notes." }];
    await step(openai, notes, items, SEALED);
    assert.equal(items[1]?.type, "reasoning");
    assert.ok(!JSON.stringify(items).includes(signature), "the client has only what is sealed");
    await step(openai, notes, items, SEALED);
    assert.equal(signatures(), 1);
    await gateway.crash();
    assert.equal(await step(openai, notes, items, SEALED), "Both are written.");
    assert.equal(signatures(), 2);
    assert.deepEqual(notes.linesOf("a.txt"), ["one", "two"]);

    await t.test("kept responses have it for clients that do not ask for it, by item and by id", async () => {
      const whole: OpenAI.Responses.ResponseInputItem[] = [{ role: "user", content: "Write two notes." }];
      await step(openai, notes, whole, {});
      assert.ok(!JSON.stringify(whole).includes("encrypted_content"));
      await step(openai, notes, whole, {});
      assert.equal(signatures(), 1);
      const first = await openai.responses.create({
        model: LOCAL,
        input: "Write two notes.",
        tools: [NOTE_TOOL],
      });
      const call = first.output.find((item) => item.type === "function_call");
      await gateway.crash();
      await openai.responses.create({
        model: LOCAL,
        previous_response_id: first.id,
        tools: [NOTE_TOOL],
        input: [{ type: "function_call_output", call_id: call?.call_id ?? "", output: "noted one" }],
      });
      assert.equal(signatures(), 1);
      const shown = await openai.responses.retrieve(first.id, { include: ["reasoning.encrypted_content"] });
      const sealed = shown.output.flatMap((item) =>
        item.type === "reasoning" ? [item.encrypted_content] : [],
      );
      assert.equal(typeof sealed[0], "string");
      const plain = JSON.stringify(await openai.responses.retrieve(first.id));
      assert.ok(!plain.includes("encrypted_content"));
    });

    await t.test("a forged one, and one of nobody here, never reach the provider", async () => {
      for (const forged of ["c2lnbmF0dXJlIG9mIHRoZSBwcm92aWRlcg==", signature, undefined]) {
        const told = items.map((item) => (item.type === "reasoning" ? forgedOf(item, forged) : item));
        const calls = provider.calls.length;
        await assert.rejects(
          openai.responses.create({ model: LOCAL, input: told, tools: [NOTE_TOOL], ...SEALED }),
          BadRequestError,
          "this provider wants its signature, and was given none",
        );
        assert.equal(provider.calls.length, calls + 1);
        const asked = JSON.stringify(provider.calls.at(-1)?.body);
        assert.ok(!asked.includes(signature) && !asked.includes("One after the other."));
      }
    });
  });
}
