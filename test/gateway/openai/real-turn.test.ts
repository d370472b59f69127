/**
 * The projection of what the agent really says, with its server dying after every single event.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createAgent } from "../../../src/agent/index.ts";
import { type AnswerDelta, projectRange, withoutRolledBack } from "../../../src/gateway/openai/index.ts";
import { ExecKind } from "../../../src/protocol/messages.ts";
import { KeepingClient, type Reply } from "../../agent/keeping-client.ts";
import { ScriptedModel } from "../../agent/scripted-model.ts";
import { TurnHost } from "../../agent/turn-host.ts";
import { eventsOf, live } from "../../turn/turn-script.ts";

const LARGE = "x".repeat(200);

function scriptedModel(): ScriptedModel {
  return ScriptedModel.steps(
    [{ think: "hm" }, "Let me see. ", { tool: "f", args: { n: 1 } }, { tool: "f", args: { n: 2 } }],
    // One that nobody declared: the server answers it by itself, and there is no pause.
    ["Oh. ", { tool: "nothing", args: {} }],
    [{ tool: "f", args: { text: LARGE } }],
    ["All is ", "done."],
  );
}

function toolDone(): Reply {
  const content = [{ content: { content: { case: "inline", value: Buffer.from("ok") } } as const }];
  return { case: "mcpResult", value: { result: { case: "success", value: { content } } } };
}

/** The events of the whole turn; the server dies at the given ones. */
async function turn(keepsBlobs: boolean, ...loseAt: readonly number[]) {
  const model = scriptedModel();
  const host = new TurnHost();
  const client = new KeepingClient(host);
  client.carryOut = toolDone;
  client.ask("Go", { keepsBlobs, execKinds: [ExecKind.MCP], tools: [{ name: "f", parametersJson: "{}" }] });
  for (const at of loseAt) {
    host.loseAt = at;
    if (await host.run(createAgent({ models: model.models }))) break;
  }
  if (host.end === undefined) await host.finish(createAgent({ models: model.models }));
  return eventsOf(host.messages);
}

/** What a client has of each answer, without where it came from. */
function answersOf(deltas: readonly AnswerDelta[]): readonly unknown[] {
  const answers: unknown[] = [];
  let text = "";
  for (const delta of deltas) {
    if (delta.kind === "text") text += delta.text;
    if (delta.kind !== "calls" && delta.kind !== "ended") continue;
    assert.equal(delta.said.text, text);
    const calls = delta.kind === "calls" ? delta.calls.map(({ tool, args }) => [tool, args]) : [];
    answers.push({
      text,
      reasoning: delta.said.reasoning,
      calls,
      end: delta.kind === "ended" ? delta.finish : "calls",
    });
    text = "";
  }
  return answers;
}

const EXPECTED = [
  {
    text: "Let me see. ",
    reasoning: "hm",
    calls: [
      ["f", '{"n":1}'],
      ["f", '{"n":2}'],
    ],
    end: "calls",
  },
  { text: "Oh. ", reasoning: "", calls: [["f", `{"text":"${LARGE}"}`]], end: "calls" },
  { text: "All is done.", reasoning: "", calls: [], end: "stop" },
];

for (const keepsBlobs of [true, false]) {
  test(`a turn of three answers, ${keepsBlobs ? "with" : "without"} blobs of the client`, async () => {
    const events = await turn(keepsBlobs);
    const all = live(events);
    assert.deepEqual(answersOf(all), EXPECTED);
    for (const [at, pause] of all.entries()) {
      if (pause.kind !== "calls") continue;
      const rest = events.filter(({ eventId }) => eventId > pause.eventId);
      assert.deepEqual(live(rest), all.slice(at + 1), "the same from the pause on");
    }
  });
}

test("wherever the server dies, a reader that is there and one that comes later have the same answers", async () => {
  const { length } = await turn(true);
  for (let at = 1; at < length; at++) {
    const events = await turn(true, at);
    assert.deepEqual(answersOf(live(events)), EXPECTED, `live, lost at ${at}`);
    assert.deepEqual(answersOf(live(withoutRolledBack(events))), EXPECTED, `later, lost at ${at}`);
    const first = live(events).find(({ kind }) => kind === "calls")?.eventId ?? 0;
    const { deltas } = projectRange(events.filter(({ eventId }) => eventId <= first));
    assert.deepEqual(answersOf(deltas), EXPECTED.slice(0, 1), `the first answer, lost at ${at}`);
  }
});
