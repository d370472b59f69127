/**
 * A subagent never has more than the turn that asked for it, and one that may only read does nothing else: the client sees to that,
 * whatever the server asks for.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { create, fromBinary, type MessageInitShape } from "../../../src/protocol/message.ts";
import { type Conversations, subagentRunner, type Tools } from "../../../src/client/index.ts";
import { writeExecError } from "../../../src/protocol/exec-codec.ts";
import {
  ExecKind,
  ExecServerMessageSchema,
  type RunRequest,
  ToolDefinitionSchema,
} from "../../../src/protocol/index.ts";
import { until } from "../../e2e/rig.ts";
import { AgentRig, newDisk, type ProcessOptions, scripted, type Talk } from "./agent-rig.ts";

type Asked = NonNullable<MessageInitShape<typeof ExecServerMessageSchema>["message"]>;

const inline = (text: string) => ({
  content: { case: "inline" as const, value: new TextEncoder().encode(text) },
});

const READ: Asked = { case: "readArgs", value: { path: "a" } };
const EFFECTS: readonly Asked[] = [
  { case: "shellArgs", value: { command: "rm a" } },
  { case: "shellStreamArgs", value: { command: "rm a" } },
  { case: "writeArgs", value: { path: "a", content: inline("b") } },
  { case: "deleteArgs", value: { path: "a" } },
  { case: "mcpArgs", value: { name: "web__post", server: "web", argsJson: inline("{}") } },
  { case: "subagentArgs", value: { prompt: inline("do it"), description: "more", depth: 1 } },
];

const OFFERED = {
  kinds: [
    ExecKind.READ,
    ExecKind.SHELL,
    ExecKind.SHELL_STREAM,
    ExecKind.WRITE,
    ExecKind.DELETE,
    ExecKind.MCP,
    ExecKind.SUBAGENT,
  ],
  definitions: [create(ToolDefinitionSchema, { name: "web__post", server: "web" })],
};

/** What reached the tools: who was asked, and what ran. */
interface Reached {
  readonly asked: string[];
  readonly ran: string[];
}

const toolsWith =
  (reached: Reached) =>
  (conversations: () => Conversations): Tools => {
    const runner = subagentRunner({ conversations });
    return {
      policy: ({ kind }) => ({ repeatable: true, needsApproval: kind !== "read" && kind !== "subagent" }),
      approve: async ({ kind }) => {
        reached.asked.push(kind);
        return { allowed: true, untilMs: Date.now() + 60_000 };
      },
      stopLeftover: () => undefined,
      run: async (exec, run) => {
        reached.ran.push(exec.kind);
        const { message } = fromBinary(ExecServerMessageSchema, exec.args);
        if (message.case === "subagentArgs") return runner.run(message.value, exec, run);
        return writeExecError(exec, "it ran");
      },
    };
  };

let lastId = 0;

/** The outcome's name. */
async function ask(talk: Talk, message: Asked): Promise<string> {
  const id = ++lastId;
  const execId = `0.${id}.0`;
  await talk.send({ case: "execServerMessage", value: { id, execId, toolCallId: "t", message } });
  return talk.until((heard) => {
    if (heard.case !== "execClientMessage" || heard.value.execId !== execId) return undefined;
    const outcome = heard.value.message.value?.result.case;
    return outcome === "progress" ? undefined : outcome;
  });
}

interface Family {
  readonly children: RunRequest[];
  readonly outcomes: string[];
}

/** A parent that asks for a subagent, which asks for everything. */
function family({ children, outcomes }: Family, args: { readonly readOnly: boolean }, ready?: Promise<void>) {
  return scripted(async (talk) => {
    if (talk.request.subagentDepth === 0) {
      const value = { prompt: inline("look"), description: "look", depth: 1, ...args };
      await talk.text(await ask(talk, { case: "subagentArgs", value }));
      return talk.end();
    }
    children.push(talk.request);
    await ready;
    if (talk.request.subagentDepth > 1) return talk.end();
    for (const message of [READ, ...EFFECTS]) outcomes.push(await ask(talk, message));
    return talk.end();
  });
}

const newFamily = (): Family => ({ children: [], outcomes: [] });
const newReached = (): Reached => ({ asked: [], ran: [] });
const REFUSED = EFFECTS.map(() => "rejected");

test("C7: for a subagent that may only read nothing else is asked about or carried out, whatever the server wants", async (t) => {
  const seen = newFamily();
  const reached = newReached();
  const rig = await AgentRig.start(t, family(seen, { readOnly: true }));
  const { conversations } = rig.process(newDisk(), { tools: OFFERED, clientTools: toolsWith(reached) });
  const turn = await (await conversations.begin()).send({ text: "go" });
  assert.equal((await turn.ended).text, "success");
  assert.deepEqual(seen.outcomes, ["error", ...REFUSED]);
  assert.deepEqual(reached, { asked: [], ran: ["subagent", "read"] });
});

test("C7: after a restart of the client a subagent that may only read still does no more", async (t) => {
  const seen = newFamily();
  const go = Promise.withResolvers<void>();
  const rig = await AgentRig.start(t, family(seen, { readOnly: true }, go.promise));
  const disk = newDisk();
  const options = (reached: Reached): ProcessOptions => ({ tools: OFFERED, clientTools: toolsWith(reached) });
  const dying = rig.process(disk, options(newReached()));
  const parent = await (await dying.conversations.begin()).send({ text: "go" });
  await until(() => seen.children.length === 1, "the child runs");
  dying.kill();
  const reached = newReached();
  const { turns } = await rig.process(disk, options(reached)).conversations.resumeAll();
  go.resolve();
  const again = turns.find(({ conversationId }) => conversationId === parent.conversationId);
  assert.equal((await again?.ended)?.text, "success");
  assert.deepEqual(seen.outcomes, ["error", ...REFUSED]);
  assert.deepEqual(reached.asked, []);
});

test("C7: a subagent is offered, and gets, no more than the turn that asked for it", async (t) => {
  const seen = newFamily();
  const reached = newReached();
  const rig = await AgentRig.start(t, family(seen, { readOnly: false }));
  const { conversations } = rig.process(newDisk(), { tools: OFFERED, clientTools: toolsWith(reached) });
  const tools = { kinds: [ExecKind.READ, ExecKind.SHELL, ExecKind.SUBAGENT], definitions: [] };
  const turn = await (await conversations.begin()).send({ text: "go" }, { tools });
  assert.equal((await turn.ended).text, "success");
  const [child] = seen.children;
  assert.deepEqual([child?.execKinds, child?.tools], [tools.kinds, []]);
  const expected = EFFECTS.map(({ case: kind }) => {
    if (kind === "shellArgs") return "error";
    return kind === "subagentArgs" ? "success" : "rejected";
  });
  assert.deepEqual(seen.outcomes, ["error", ...expected]);
  assert.deepEqual(reached.asked, ["shell"]);
  // The server says depth 1 each time; the client counts.
  assert.deepEqual(
    seen.children.map(({ subagentDepth }) => subagentDepth),
    [1, 2],
  );
});

test("C7: a subagent's tools are asked about like its parent's, one by one", async (t) => {
  const seen = newFamily();
  const reached = newReached();
  const rig = await AgentRig.start(t, family(seen, { readOnly: false }));
  const { conversations } = rig.process(newDisk(), { tools: OFFERED, clientTools: toolsWith(reached) });
  const turn = await (await conversations.begin()).send({ text: "go" });
  assert.equal((await turn.ended).text, "success");
  assert.deepEqual(reached.asked, ["shell", "shell_stream", "write", "delete", "mcp"]);
});
