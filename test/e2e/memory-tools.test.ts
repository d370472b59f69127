/**
 * Tools end to end in one process: asked for by the server, run by the client, over cuts and deaths.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { create, fromBinary, toBinary } from "../../src/protocol/message.ts";
import { type ClientStream, memoryJournalStore, type Tools } from "../../src/client/index.ts";
import {
  AgentClientMessageSchema,
  AgentServerMessageSchema,
  type ExecRequest,
} from "../../src/protocol/index.ts";
import type { Application } from "../../src/server/index.ts";
import { bytes, rest, Rig, text, turn, until } from "./rig.ts";

/** An event that asks the client to run the tool `deploy`. */
const request = (execId: string, args = "{}"): Uint8Array =>
  toBinary(
    AgentServerMessageSchema,
    create(AgentServerMessageSchema, {
      message: {
        case: "execServerMessage",
        value: {
          execId,
          message: {
            case: "mcpArgs",
            value: { name: "deploy", argsJson: { content: { case: "inline", value: bytes(args) } } },
          },
        },
      },
    }),
  );

/** An event for people: a client with tools reads agent messages. */
const saying = (text: string): Uint8Array =>
  toBinary(
    AgentServerMessageSchema,
    create(AgentServerMessageSchema, {
      message: {
        case: "interactionUpdate",
        value: { message: { case: "textDelta", value: { text } } },
      },
    }),
  );

/** The last word of a stream. */
async function lastWord(stream: ClientStream): Promise<string> {
  const { message } = fromBinary(AgentServerMessageSchema, (await rest(stream)).at(-1)?.body ?? bytes(""));
  if (message.case !== "interactionUpdate" || message.value.message.case !== "textDelta") return "";
  return message.value.message.value.text;
}

/** A chunk that says how the tool went. */
const success = ({ id, execId }: ExecRequest): Uint8Array =>
  toBinary(
    AgentClientMessageSchema,
    create(AgentClientMessageSchema, {
      message: {
        case: "execClientMessage",
        value: {
          id,
          execId,
          message: { case: "mcpResult", value: { result: { case: "success", value: {} } } },
        },
      },
    }),
  );

/** "exec-1 success" or "exec-1 unknown"; undefined for any other chunk. */
function outcomeOf(body: Uint8Array): string | undefined {
  if (text(body) === "go") return undefined;
  const { message } = fromBinary(AgentClientMessageSchema, body);
  if (message.case !== "execClientMessage" || message.value.message.case !== "mcpResult") return undefined;
  return `${message.value.execId} ${message.value.message.value.result.case ?? "empty"}`;
}

/** Asks once for each exec, waits for all results or a takeover, and says what came. */
const asking =
  (...execIds: readonly string[]): Application =>
  async (stream) => {
    let asked = 0;
    for await (const _ of stream.past()) asked++;
    const outcomes: string[] = [];
    for await (const input of stream.inputs) {
      for (const execId of execIds.slice(asked)) await stream.emit(request(execId));
      asked = execIds.length;
      const outcome = input.kind === "chunk" ? outcomeOf(input.body) : undefined;
      if (outcome !== undefined) outcomes.push(outcome);
      if (input.kind === "takeover") outcomes.push(`takeover after event ${input.sinceEvent}`);
      if (outcomes.length === execIds.length) break;
    }
    await stream.end(saying(outcomes.toSorted().join(", ")));
  };

interface Deployments extends Tools {
  readonly runs: string[];
  readonly leftovers: string[];
}

function deployments(run: (exec: ExecRequest) => Promise<Uint8Array>, needsApproval = false): Deployments {
  const runs: string[] = [];
  const leftovers: string[] = [];
  return {
    runs,
    leftovers,
    policy: () => ({ repeatable: false, needsApproval }),
    approve: async () => ({ allowed: false, untilMs: 0 }),
    run(exec) {
      runs.push(exec.execId);
      return run(exec);
    },
    stopLeftover: ({ execId }) => void leftovers.push(execId),
  };
}

const never = (): Promise<Uint8Array> => new Promise(() => undefined);

test("C1, C3: tools that run longer than a connection run once, and each result arrives once", async (t) => {
  const rig = await Rig.start(t, asking("exec-1", "exec-2"));
  const tools = deployments(async (exec) => {
    for (let cuts = 0; cuts < 3; cuts++) {
      rig.cut();
      for (let turns = 0; turns < 20; turns++) await turn();
    }
    return success(exec);
  });
  const stream = await rig.client({ tools }).open({ first: bytes("go") });
  assert.equal(await lastWord(stream), "exec-1 success, exec-2 success");
  assert.deepEqual(tools.runs.toSorted(), ["exec-1", "exec-2"]);
  assert.ok(rig.connects > 1);
});

test("C3: a server that was restarted while the tool ran does not make it run again", async (t) => {
  const rig = await Rig.start(t, asking("exec-1"));
  const tools = deployments(async (exec) => {
    await rig.crash();
    return success(exec);
  });
  const stream = await rig.client({ tools }).open({ first: bytes("go") });
  assert.equal(await lastWord(stream), "exec-1 success");
  assert.deepEqual(tools.runs, ["exec-1"]);
});

test("C2: a client that died while a tool ran reports unknown and does not run it again", async (t) => {
  const rig = await Rig.start(t, asking("exec-1"));
  const journals = memoryJournalStore();
  const before = deployments(never);
  const dying = rig.process({ journals, tools: before });
  await dying.client.open({ first: bytes("go") });
  await until(() => before.runs.length === 1, "the tool runs");
  dying.kill();

  const after = deployments(async (exec) => success(exec));
  const { resumed } = await rig.client({ journals, tools: after }).resumeAll();
  const [stream] = resumed;
  assert.ok(stream !== undefined);
  assert.equal(await lastWord(stream), "exec-1 unknown");
  assert.deepEqual([after.runs, after.leftovers], [[], ["exec-1"]]);
});

test("C1: a tool that throws is an error, one that is not allowed is rejected and does not run", async (t) => {
  const rig = await Rig.start(t, asking("exec-1"));
  const failing = deployments(async () => {
    throw new Error("no such host");
  });
  const refused = deployments(never, true);
  const outcomes: string[] = [];
  for (const tools of [failing, refused]) {
    const stream = await rig.client({ tools }).open({ first: bytes("go") });
    outcomes.push(await lastWord(stream));
  }
  assert.deepEqual(outcomes, ["exec-1 error", "exec-1 rejected"]);
  assert.deepEqual([failing.runs, refused.runs], [["exec-1"], []]);
});

test("D2: a client that takes over does not run what was asked of the one before", async (t) => {
  const rig = await Rig.start(t, asking("exec-1"));
  const first = deployments(never);
  const second = deployments(async (exec) => success(exec));
  const stream = await rig.client({ tools: first }).open({ first: bytes("go") });
  await until(() => first.runs.length === 1, "the tool runs");
  const taken = await rig.client({ tools: second }).takeOver(stream.idempotencyKey);
  assert.equal(await lastWord(taken), "takeover after event 1");
  assert.deepEqual(second.runs, []);
});

test("C4: an exec that was asked before the first writer came is run all the same", async (t) => {
  const rig = await Rig.start(t, async (stream) => {
    await stream.emit(request("exec-1"));
    for await (const input of stream.inputs) {
      if (input.kind === "chunk" && outcomeOf(input.body) !== undefined) return;
    }
  });
  const tools = deployments(async (exec) => success(exec));
  const stream = await rig.client({ tools }).open({ first: bytes("go") });
  assert.equal((await rest(stream)).at(-1)?.end, "completed");
  assert.deepEqual(tools.runs, ["exec-1"]);
});

test("C1: an event that a client with tools cannot read stops it with a reason", async (t) => {
  const rig = await Rig.start(t, async (stream) => {
    await stream.emit(bytes("this is no agent message"));
    for await (const _ of stream.inputs) await turn();
  });
  const tools = deployments(never);
  const stream = await rig.client({ tools }).open({ first: bytes("go") });
  await assert.rejects(rest(stream), { code: "invalid_frame" });
  assert.equal(stream.status.state, "ended");
});
