/**
 * What a newcomer tries first: `holdfast serve` with nothing configured, killed in the middle of an answer of the rehearsal model, again and again.
 *
 * The answer continues at the next word for every kind of client. In thoughts, in text, in the arguments of a tool call.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import OpenAI from "openai";
import { z } from "zod";
import { holdfast } from "../../src/fetch/index.ts";
import { connect, tool } from "../../src/node/index.ts";
import { parsedJson } from "../../src/protocol/fields.ts";
import { StandingGateway } from "../gateway/clients/standing-gateway.ts";

const THOUGHT = "t1 t2 t3 t4 t5 t6 t7 t8 t9";
const TEXT = "s1 s2 s3 s4 s5 s6 s7 s8 s9";
const ARGS = '{"text":"what is noted, word by word"}';
const SCRIPT = `pace 100 ms\nthink ${THOUGHT}\nsay ${TEXT}`;
const NEW_CALLS = 'holdfast_provider_requests_total\\{provider="rehearsal"\\}';

const DELTA = z.object({ content: z.string().nullish(), reasoning_content: z.string().nullish() });
const CHUNK = z.object({ choices: z.array(z.object({ delta: DELTA })) });

async function home(t: TestContext): Promise<StandingGateway> {
  return StandingGateway.begin(t, {});
}

test("C0: the native client: killed in a thought, in text, in a tool's arguments and behind its result, nothing is taken back", async (t) => {
  const gateway = await home(t);
  const noted: string[] = [];
  const note = tool("Notes", { text: z.string() }, ({ text }) => (noted.push(text), "kept"));
  const url = gateway.baseURL.replace(/\/v1$/, "");
  const place = { directory: gateway.workspace, homeKey: new Uint8Array(32).fill(7) };
  await using client = await connect(url, { apiKey: gateway.apiKey, tools: { note }, ...place });
  const said = { thinking: "", text: "", changes: "", retracted: 0 };
  const kills = [
    () => said.thinking.includes("t2"),
    () => said.thinking.includes("t5"),
    () => said.text.includes("s2"),
    () => said.text.includes("s5"),
    () => said.text.includes("s8"),
    () => said.changes === "writing ",
    () => said.text.includes("The tool's"),
  ];
  for await (const part of await client.conversation("notes").send(`${SCRIPT}\ncall note ${ARGS}`)) {
    if (part.type === "thinking") said.thinking += part.text;
    if (part.type === "text") said.text += part.text;
    if (part.type === "retract" || part.type === "continued") said.retracted++;
    if (part.type === "tool" && !said.changes.endsWith(`${part.change} `)) said.changes += `${part.change} `;
    if (kills[0]?.() !== true) continue;
    kills.shift();
    await gateway.crash();
  }
  assert.deepEqual(kills, [], "all of them");
  assert.deepEqual(said, {
    thinking: THOUGHT,
    text: `${TEXT}\n\nThe tool's outcome is "done": kept`,
    changes: "writing started over ",
    retracted: 0,
  });
  assert.deepEqual(noted, ["what is noted, word by word"]);
});

test("C0: a stock POST with an Idempotency-Key, killed five times: each retry has the same answer from its beginning, and the last one all of it once", async (t) => {
  const gateway = await home(t);
  const asked = { model: "rehearsal", stream: true, messages: [{ role: "user", content: SCRIPT }] };
  const kills = ["t3", "t7", "s2", "s5", "s7"];
  let before = { thought: "", text: "" };
  for (;;) {
    const response = await fetch(`${gateway.baseURL}/chat/completions`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${gateway.apiKey}`,
        "content-type": "application/json",
        "idempotency-key": "the-question",
      },
      body: JSON.stringify(asked),
    });
    assert.equal(response.status, 200);
    const kill = kills.shift();
    const { said, isWhole } = await read(response, kill, () => gateway.crash());
    assert.ok(said.thought.startsWith(before.thought) || before.thought.startsWith(said.thought));
    assert.ok(said.text.startsWith(before.text), `${said.text} does not begin with ${before.text}`);
    before = said;
    if (kill !== undefined) continue;
    assert.ok(isWhole);
    assert.deepEqual(said, { thought: THOUGHT, text: TEXT });
    assert.ok(Number.isNaN(await gateway.metric(NEW_CALLS)), "this server made no new call");
    return;
  }
});

interface Heard {
  readonly said: { thought: string; text: string };
  readonly isWhole: boolean;
}

/** Until the response ends, or breaks with its server, which is killed at a word. */
async function read(response: Response, word: string | undefined, kill: () => Promise<void>): Promise<Heard> {
  const said = { thought: "", text: "" };
  let killed: Promise<void> | undefined;
  let rest = "";
  try {
    assert.ok(response.body !== null);
    for await (const words of response.body.pipeThrough(new TextDecoderStream())) {
      rest += words;
      const frames = rest.split("\n\n");
      rest = frames.pop() ?? "";
      for (const frame of frames) {
        const data = /^data: (.*)$/m.exec(frame)?.[1] ?? "";
        if (data === "[DONE]") return { said, isWhole: true };
        const delta = CHUNK.parse(parsedJson(data)).choices[0]?.delta;
        said.thought += delta?.reasoning_content ?? "";
        said.text += delta?.content ?? "";
      }
      if (word !== undefined && `${said.thought}${said.text}`.includes(word)) killed ??= kill();
    }
  } catch (error) {
    if (killed === undefined) throw error;
  } finally {
    await killed;
  }
  return { said, isWhole: false };
}

test("C0: a stock SDK with holdfast/fetch, killed in the thought, in the text and in a tool's arguments: it sees nothing", async (t) => {
  const gateway = await home(t);
  const { baseURL, apiKey } = gateway;
  const openai = new OpenAI({ baseURL, apiKey, fetch: holdfast({ baseURL }), maxRetries: 0 });
  const content = `${SCRIPT}\ncall note ${ARGS}`;
  const stream = await openai.chat.completions.create({
    model: "rehearsal",
    messages: [{ role: "user", content }],
    tools: [{ type: "function", function: { name: "note", parameters: { type: "object" } } }],
    stream: true,
  });
  const said = { thought: "", text: "", args: "" };
  // Behind the last word the arguments are being written, and are not shown yet.
  const kills = ["t2", "t6", "s2", "s5", "s9"];
  for await (const { choices } of stream) {
    const delta = choices[0]?.delta;
    said.thought +=
      delta !== undefined && "reasoning_content" in delta ? String(delta.reasoning_content) : "";
    said.text += delta?.content ?? "";
    for (const call of delta?.tool_calls ?? []) said.args += call.function?.arguments ?? "";
    if (!`${said.thought}${said.text}`.includes(kills[0] ?? "no more")) continue;
    kills.shift();
    await gateway.crash();
  }
  assert.deepEqual(kills, []);
  assert.deepEqual(said, { thought: THOUGHT, text: TEXT, args: ARGS });
});
