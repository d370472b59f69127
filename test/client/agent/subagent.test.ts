/**
 * Subagents: an exec that another turn carries out, found again after every crash, never begun twice.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fromBinary } from "../../../src/protocol/message.ts";
import {
  childNames,
  type Conversations,
  type SubagentOptions,
  subagentRunner,
  type Tools,
  type Turn,
} from "../../../src/client/index.ts";
import {
  BlobKind,
  encodeChatMessage,
  ExecKind,
  ExecServerMessageSchema,
  type RunRequest,
  type SubagentResult,
} from "../../../src/protocol/index.ts";
import { until } from "../../e2e/rig.ts";
import { AgentRig, newDisk, type ProcessOptions, scripted, type Talk } from "./agent-rig.ts";

const inline = (text: string) => ({
  content: { case: "inline" as const, value: new TextEncoder().encode(text) },
});

/** Tools that know nothing but subagents. */
const toolsWith =
  (options: Omit<SubagentOptions, "conversations"> = {}) =>
  (conversations: () => Conversations): Tools => {
    const runner = subagentRunner({ conversations, ...options });
    return {
      policy: () => ({ repeatable: true, needsApproval: false }),
      approve: async () => ({ allowed: true, untilMs: Infinity }),
      stopLeftover: () => undefined,
      run: async (exec, run) => {
        const { message } = fromBinary(ExecServerMessageSchema, exec.args);
        assert.ok(message.case === "subagentArgs");
        return runner.run(message.value, exec, run);
      },
    };
  };

const KINDS = [ExecKind.SHELL, ExecKind.READ, ExecKind.GREP, ExecKind.SUBAGENT];
const offering: ProcessOptions = { tools: { kinds: KINDS, definitions: [] }, clientTools: toolsWith() };

interface Asked {
  readonly model?: string;
  readonly depth?: number;
  readonly readOnly?: boolean;
}

interface Account {
  readonly children: RunRequest[];
  readonly results: SubagentResult["result"][];
  readonly progress: string[];
}

const newAccount = (): Account => ({ children: [], results: [], progress: [] });

/** A parent that asks for one subagent and says what came of it; the child does as `child` says. */
function family(account: Account, child: (talk: Talk) => Promise<void>, args: Asked = {}) {
  return scripted(async (talk) => {
    if (talk.request.subagentDepth > 0) {
      account.children.push(talk.request);
      return child(talk);
    }
    const value = { prompt: inline("count the stars"), description: "stars", depth: 1, ...args };
    await talk.send({
      case: "execServerMessage",
      value: { id: 1, execId: "0.0.0", toolCallId: "t", message: { case: "subagentArgs", value } },
    });
    const result = await talk.until((message) => {
      if (message.case !== "execClientMessage" || message.value.message.case !== "subagentResult")
        return undefined;
      const { result: said } = message.value.message.value;
      if (said.case !== "progress") return said;
      if (!account.progress.includes(said.value.text)) account.progress.push(said.value.text);
      return undefined;
    });
    account.results.push(result);
    await talk.text(result.case ?? "nothing");
    await talk.end();
  });
}

async function answering(talk: Talk): Promise<void> {
  await talk.update({ case: "stepStarted", value: { step: 0 } });
  await talk.update({
    case: "toolCallStarted",
    value: { toolCall: { toolCallId: "x", tool: "read", argsJson: inline('{"path": "sky"}'), execIds: [] } },
  });
  await talk.text("many");
  const answer = encodeChatMessage({ role: "assistant", content: [{ type: "text", text: "many" }] });
  const id = await talk.keep(answer, BlobKind.ASSISTANT_MESSAGE);
  await talk.update({ case: "stepCompleted", value: { step: 0 } });
  await talk.checkpoint({ messages: [id] });
  await talk.end();
}

const promptOf = ({ action }: RunRequest): string =>
  action?.action.case === "userMessageAction" ? (action.action.value.userMessage?.text ?? "") : "";

test("a subagent is a turn of its own, whose progress and answer reach the parent", async (t) => {
  const account = newAccount();
  const rig = await AgentRig.start(t, family(account, answering, { model: "small" }));
  const seen: Turn[] = [];
  const clientTools = toolsWith({ onChild: (turn) => void seen.push(turn) });
  const { conversations } = rig.process(newDisk(), { ...offering, clientTools });
  const parent = await (await conversations.begin()).send({ text: "go" });
  assert.equal((await parent.ended).text, "success");
  const [child] = account.children;
  assert.deepEqual(
    [child?.subagentDepth, child?.model, child && promptOf(child)],
    [1, "small", "count the stars"],
  );
  assert.deepEqual(child?.execKinds, KINDS);
  const [result] = account.results;
  assert.ok(result?.case === "success");
  const names = childNames(parent.stream.idempotencyKey, "0.0.0");
  assert.deepEqual(
    [result.value.idempotencyKey, result.value.conversationId],
    [names.idempotencyKey, names.conversationId],
  );
  assert.equal(new TextDecoder().decode(result.value.text?.content.value), "many");
  assert.deepEqual(account.progress, ["step 1", 'read {"path": "sky"}']);
  assert.deepEqual(
    seen.map(({ conversationId }) => conversationId),
    [names.conversationId],
  );
  assert.deepEqual((await conversations.list()).length, 1, "a child is not listed beside its parent");
  await conversations.remove(parent.conversationId);
  await assert.rejects(conversations.open(names.conversationId), { code: "not_found" });
});

test("names are derived: the same exec has the same child, another one another", () => {
  const names = childNames("parent", "0.0.0");
  assert.match(names.idempotencyKey, /^[0-9a-f]{32}$/);
  assert.deepEqual(names, childNames("parent", "0.0.0"));
  const others = [childNames("parent", "0.0.1"), childNames("other", "0.0.0")];
  const all = [names, ...others].flatMap((one) => [one.idempotencyKey, one.conversationId]);
  assert.equal(new Set(all).size, 6);
});

for (const how of ["resumes all", "resumes the parent only"]) {
  test(`C1: a child that ran when the client died is found by one that ${how}, and not begun again`, async (t) => {
    const account = newAccount();
    const go = Promise.withResolvers<void>();
    const rig = await AgentRig.start(
      t,
      family(account, async (talk) => {
        await talk.text("so far, ");
        await go.promise;
        await answering(talk);
      }),
    );
    const disk = newDisk();
    const dying = rig.process(disk, offering);
    const parent = await (await dying.conversations.begin()).send({ text: "go" });
    await until(() => account.children.length === 1, "the child runs");
    dying.kill();
    const { conversations } = rig.process(disk, offering);
    const turns = how === "resumes all" ? (await conversations.resumeAll()).turns : [];
    const again =
      turns.find(({ conversationId }) => conversationId === parent.conversationId) ??
      (await (await conversations.open(parent.conversationId)).resume());
    go.resolve();
    assert.equal((await again?.ended)?.text, "success");
    assert.equal(account.children.length, 1);
  });
}

test("C1: a client that is closed leaves the child running, and its parent finds it again", async (t) => {
  const account = newAccount();
  const go = Promise.withResolvers<void>();
  const rig = await AgentRig.start(
    t,
    family(account, async (talk) => {
      await go.promise;
      await answering(talk);
    }),
  );
  const disk = newDisk();
  const first = rig.process(disk, offering);
  const { conversationId } = await (await first.conversations.begin()).send({ text: "go" });
  await until(() => account.children.length === 1, "the child runs");
  await first.client.close();
  const { turns } = await rig.process(disk, offering).conversations.resumeAll();
  go.resolve();
  const again = turns.find((turn) => turn.conversationId === conversationId);
  assert.equal((await again?.ended)?.text, "success");
  assert.equal(account.children.length, 1);
});

test("a child that had ended when the client died gives its answer from what was kept", async (t) => {
  const account = newAccount();
  const rig = await AgentRig.start(t, family(account, answering));
  const disk = newDisk();
  // The parent's journal takes nothing more once the child has run: its result is lost with the process.
  let isStuck = false;
  const stuck = Promise.withResolvers<never>();
  stuck.promise.catch(() => undefined);
  const append: typeof disk.journals.append = (idempotencyKey, records) =>
    isStuck ? stuck.promise : disk.journals.append(idempotencyKey, records);
  const clientTools = toolsWith({
    onChild: (turn) => void turn.stream.ended.then(() => (isStuck = true)),
  });
  const dying = rig.process(
    { ...disk, journals: { ...disk.journals, append } },
    { ...offering, clientTools },
  );
  const parent = await (await dying.conversations.begin()).send({ text: "go" });
  const names = childNames(parent.stream.idempotencyKey, "0.0.0");
  let isOver = false;
  while (!isOver) {
    isOver = (await disk.stores.records.get(names.conversationId))?.lastTurn !== undefined;
    await new Promise((resolve) => setImmediate(resolve));
  }
  dying.kill();
  const { conversations } = rig.process(disk, offering);
  const again = await (await conversations.open(parent.conversationId)).resume();
  assert.equal((await again?.ended)?.text, "success");
  assert.equal(account.children.length, 1);
  const [result] = account.results;
  const text = result?.case === "success" ? result.value.text?.content.value : undefined;
  assert.equal(new TextDecoder().decode(text), "many");
  stuck.reject(new Error("the process is dead"));
});

test("a child whose record was written and whose stream was not is begun", async (t) => {
  const account = newAccount();
  const rig = await AgentRig.start(t, family(account, answering));
  const disk = newDisk();
  const clientTools: ProcessOptions["clientTools"] = (conversations) => {
    const tools = toolsWith()(conversations);
    return {
      ...tools,
      run: async (exec, run) => {
        const names = childNames(run.idempotencyKey, exec.execId);
        const turn = {
          idempotencyKey: names.idempotencyKey,
          startedMs: 0,
          kind: "message" as const,
          checkpointEventId: 0,
          turnsBefore: 0,
          messagesBefore: 0,
        };
        const base = {
          title: "",
          model: "",
          createdMs: 0,
          updatedMs: 0,
          version: 0,
          subagentDepth: 1,
          parentId: "p",
        };
        await disk.stores.records.put({ ...base, conversationId: names.conversationId, turn });
        return tools.run(exec, run);
      },
    };
  };
  const { conversations } = rig.process(disk, { ...offering, clientTools });
  const parent = await (await conversations.begin()).send({ text: "go" });
  assert.equal((await parent.ended).text, "success");
  assert.equal(account.children.length, 1);
});

test("D3: an abort goes down to the child", async (t) => {
  const account = newAccount();
  const aborted = Promise.withResolvers<void>();
  const rig = await AgentRig.start(
    t,
    family(account, async (talk) => {
      talk.stream.signal.addEventListener("abort", () => aborted.resolve());
      await talk.text("counting");
      await aborted.promise;
      throw new Error("stopped");
    }),
  );
  const { conversations } = rig.process(newDisk(), offering);
  const parent = await (await conversations.begin()).send({ text: "go" });
  await until(() => account.children.length === 1, "the child runs");
  await parent.abort();
  await aborted.promise;
  assert.equal((await parent.ended).reason, "aborted");
  const names = childNames(parent.stream.idempotencyKey, "0.0.0");
  const child = conversations.turnOf(names.idempotencyKey);
  assert.equal((await child?.ended)?.reason ?? "aborted", "aborted");
});

test("a child that fails is an error that says why", async (t) => {
  const account = newAccount();
  const failing = (talk: Talk): Promise<void> =>
    talk.end({ reason: 3, failure: { message: "no stars tonight" } });
  const rig = await AgentRig.start(t, family(account, failing));
  const { conversations } = rig.process(newDisk(), offering);
  await (
    await (await conversations.begin()).send({ text: "go" })
  ).ended;
  const [result] = account.results;
  assert.match(result?.case === "error" ? result.value.message : "", /no stars tonight/);
});

test("E8: ten levels are carried out, the eleventh is refused; the tenth offers no subagents", async (t) => {
  for (const depth of [10, 11]) {
    const account = newAccount();
    const rig = await AgentRig.start(t, family(account, answering, { depth }));
    const { conversations } = rig.process(newDisk(), offering);
    await (
      await (await conversations.begin()).send({ text: "go" })
    ).ended;
    const [result] = account.results;
    assert.equal(result?.case, depth === 10 ? "success" : "error");
    assert.equal(
      account.children[0]?.execKinds.includes(ExecKind.SUBAGENT),
      depth === 10 ? false : undefined,
    );
  }
});

test("a subagent that may only read is offered only what reads", async (t) => {
  const account = newAccount();
  const rig = await AgentRig.start(t, family(account, answering, { readOnly: true }));
  const { conversations } = rig.process(newDisk(), offering);
  await (
    await (await conversations.begin()).send({ text: "go" })
  ).ended;
  assert.deepEqual(account.children[0]?.execKinds, [ExecKind.READ, ExecKind.GREP]);
});
