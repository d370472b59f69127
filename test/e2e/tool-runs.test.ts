/**
 * What a run may do besides its result: say something before it, fetch and put blobs, be stopped by itself.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { create, fromBinary, type MessageInitShape, toBinary } from "../../src/protocol/message.ts";
import type { Approval, ToolRun, Tools } from "../../src/client/index.ts";
import {
  AgentClientMessageSchema,
  AgentServerMessageSchema,
  type ExecRequest,
  LIMITS,
  type ShellStreamResultSchema,
} from "../../src/protocol/index.ts";
import type { Application } from "../../src/server/index.ts";
import { bytes, rest, Rig, text, until, words } from "./rig.ts";

type ServerMessage = NonNullable<MessageInitShape<typeof AgentServerMessageSchema>["message"]>;
const event = (message: ServerMessage): Uint8Array =>
  toBinary(AgentServerMessageSchema, create(AgentServerMessageSchema, { message }));

const request = (execId: string): Uint8Array =>
  event({
    case: "execServerMessage",
    value: { execId, message: { case: "shellStreamArgs", value: { command: "make" } } },
  });
const takingBack = (execId: string): Uint8Array =>
  event({ case: "execServerControlMessage", value: { message: { case: "abort", value: { execId } } } });

type Result = NonNullable<MessageInitShape<typeof ShellStreamResultSchema>["result"]>;
const reply = (execId: string, said: "success" | { readonly stdout: string }): Uint8Array => {
  const result: Result =
    said === "success"
      ? { case: "success", value: {} }
      : { case: "output", value: { output: { case: "stdout", value: bytes(said.stdout) } } };
  const message = { case: "shellStreamResult", value: { result } } as const;
  return toBinary(
    AgentClientMessageSchema,
    create(AgentClientMessageSchema, { message: { case: "execClientMessage", value: { execId, message } } }),
  );
};

/** "a: hello", "a success", "a rejected (too late)"; or the plain text of what is no reply. */
function heard(body: Uint8Array): string {
  if (body.length < 4) return text(body);
  const { message } = fromBinary(AgentClientMessageSchema, body);
  if (message.case !== "execClientMessage") return message.case ?? "nothing";
  const { execId, message: said } = message.value;
  if (said.case !== "shellStreamResult") return `${execId} ${String(said.case)}`;
  const { result } = said.value;
  if (result.case === "output") return `${execId}: ${text(result.value.output.value ?? bytes(""))}`;
  const why = result.case === "rejected" ? ` (${result.value.reason})` : "";
  return `${execId} ${String(result.case)}${why}`;
}

/** Asks for one exec, takes it back when told "off", and says what it heard once the result is there. */
const listening: Application = async (stream) => {
  const all: string[] = [];
  await stream.emit(request("a"));
  for await (const input of stream.inputs) {
    if (input.kind === "close") break;
    if (input.kind !== "chunk") continue;
    const said = heard(input.body);
    if (said === "off") await stream.emit(takingBack("a"));
    else all.push(said);
    if (/^a \w/.test(said)) break;
  }
  await stream.end(bytes(all.join(", ")));
};

interface Setup {
  readonly run?: (exec: ExecRequest, run: ToolRun) => Promise<Uint8Array>;
  readonly approve?: Tools["approve"];
}

function toolsOf({ run = async () => assert.fail("it runs"), approve }: Setup): Tools {
  return {
    policy: () => ({ repeatable: false, needsApproval: approve !== undefined }),
    approve: approve ?? (async () => assert.fail("nobody is asked")),
    run,
    stopLeftover: () => undefined,
  };
}

async function heardFrom(stream: Parameters<typeof rest>[0]): Promise<string> {
  return words(await rest(stream)).at(-1) ?? "";
}

test("what a run says arrives in order before its result, over cuts, and nothing follows it", async (t) => {
  const rig = await Rig.start(t, listening);
  let late: Promise<void> | undefined;
  const tools = toolsOf({
    run: async ({ execId }, run) => {
      for (const word of ["one", "two", "three"]) {
        void run.say(reply(execId, { stdout: word }));
        rig.cut();
      }
      setTimeout(() => {
        late = run.say(reply(execId, { stdout: "late" }));
      }, 20);
      return reply(execId, "success");
    },
  });
  const stream = await rig.client({ tools }).open({ first: bytes("go") });
  assert.equal(await heardFrom(stream), "go, a: one, a: two, a: three, a success");
  await until(() => late !== undefined, "it has tried");
  await assert.rejects(late ?? Promise.resolve(), { code: "stream_ended" });
});

test("A5, E8: what is said waits for room, and what is too large is refused", async (t) => {
  const counting: Application = async (stream) => {
    let count = 0;
    await stream.emit(request("a"));
    for await (const input of stream.inputs) {
      if (input.kind !== "chunk" || !heard(input.body).startsWith("a")) continue;
      if (heard(input.body) === "a success") break;
      count++;
    }
    await stream.end(bytes(String(count)));
  };
  const rig = await Rig.start(t, counting);
  const tools = toolsOf({
    run: async ({ execId }, run) => {
      const large = reply(execId, { stdout: "x".repeat(LIMITS.chunkBytesMax - 1_000) });
      // More than the window holds at once.
      for (let said = 0; said < 20; said++) void run.say(large);
      await assert.rejects(run.say(new Uint8Array(LIMITS.chunkBytesMax + 1)), { code: "too_large" });
      return reply(execId, "success");
    },
  });
  const stream = await rig.client({ tools }).open({ first: bytes("go") });
  assert.equal(await heardFrom(stream), "20");
});

test("a close waits for what a run says, too", async (t) => {
  const rig = await Rig.start(t, listening);
  const started = Promise.withResolvers<ToolRun>();
  const finish = Promise.withResolvers<void>();
  const tools = toolsOf({
    run: async ({ execId }, run) => {
      started.resolve(run);
      await finish.promise;
      await run.say(reply(execId, { stdout: "last words" }));
      return reply(execId, "success");
    },
  });
  const stream = await rig.client({ tools }).open({ first: bytes("go") });
  await started.promise;
  const closed = stream.close();
  finish.resolve();
  await closed;
  assert.equal(await heardFrom(stream), "go, a: last words, a success");
});

test("a run knows its stream, and puts and fetches its blobs", async (t) => {
  const rig = await Rig.start(t, listening);
  const tools = toolsOf({
    run: async ({ execId }, run) => {
      const id = await run.upload(bytes(run.idempotencyKey));
      await run.say(reply(execId, { stdout: text(await run.download(id)) }));
      return reply(execId, "success");
    },
  });
  const stream = await rig.client({ tools }).open({ first: bytes("go"), idempotencyKey: "mine" });
  assert.equal(await heardFrom(stream), "go, a: mine, a success");
});

test("the reason of a denial reaches the server", async (t) => {
  const rig = await Rig.start(t, listening);
  const denying = (reason?: string): Tools =>
    toolsOf({
      approve: async () => ({ allowed: false, untilMs: 0, ...(reason === undefined ? {} : { reason }) }),
    });
  const stream = await rig.client({ tools: denying("not on a Friday") }).open({ first: bytes("go") });
  assert.equal(await heardFrom(stream), "go, a rejected (not on a Friday)");
  const silent = await rig.client({ tools: denying() }).open({ first: bytes("go") });
  assert.equal(await heardFrom(silent), "go, a rejected (denied)");
});

test("C7: an approval may be for ever; one whose end is no number is none", async (t) => {
  const rig = await Rig.start(t, listening);
  const until = async (untilMs: number): Promise<string> => {
    const tools = toolsOf({
      approve: async () => ({ allowed: true, untilMs }),
      run: async ({ execId }) => reply(execId, "success"),
    });
    return heardFrom(await rig.client({ tools }).open({ first: bytes("go") }));
  };
  assert.equal(await until(Infinity), "go, a success");
  assert.equal(await until(1e300), "go, a success");
  assert.equal(
    await until(Number.NaN),
    "go, a rejected (the approval says until when it is good, and that is no number)",
  );
  assert.deepEqual(rig.bugs, []);
});

test("C1: an exec that is taken back while it runs is stopped, and answers with what came out of it", async (t) => {
  const rig = await Rig.start(t, listening);
  const started = Promise.withResolvers<void>();
  const tools = toolsOf({
    run: async ({ execId }, run) => {
      started.resolve();
      await new Promise((resolve) => run.signal.addEventListener("abort", resolve));
      await run.say(reply(execId, { stdout: "half" }));
      return reply(execId, "success");
    },
  });
  const stream = await rig.client({ tools }).open({ first: bytes("go") });
  await started.promise;
  await stream.send(bytes("off"));
  assert.equal(await heardFrom(stream), "go, a: half, a success");
});

test("C1: an exec that is taken back while a person thinks about it is answered, and the question is closed; the late approval is ignored", async (t) => {
  const rig = await Rig.start(t, listening);
  const asked = Promise.withResolvers<AbortSignal>();
  const decision = Promise.withResolvers<Approval>();
  const tools = toolsOf({
    approve: (_exec, { signal }) => {
      asked.resolve(signal);
      return decision.promise;
    },
  });
  const stream = await rig.client({ tools }).open({ first: bytes("go") });
  const signal = await asked.promise;
  assert.ok(!signal.aborted);
  await stream.send(bytes("off"));
  assert.equal(await heardFrom(stream), "go, a aborted");
  assert.ok(signal.aborted);
  decision.resolve({ allowed: true, untilMs: Date.now() + 60_000 });
});

test("D3: another client's abort closes the question whether a tool may run, and so does leaving, which answers nothing", async (t) => {
  for (const stops of ["abort", "leave"] as const) {
    const rig = await Rig.start(t, listening);
    const asked = Promise.withResolvers<AbortSignal>();
    const tools = toolsOf({
      approve: (_exec, { signal }) => {
        asked.resolve(signal);
        return new Promise(() => undefined);
      },
    });
    const client = rig.client({ tools });
    const stream = await client.open({ first: bytes("go") });
    const signal = await asked.promise;
    if (stops === "leave") stream.leave();
    else await (await client.follow(stream.idempotencyKey)).abort();
    assert.equal(await stream.ended, stops === "leave" ? undefined : "aborted");
    assert.ok(signal.aborted, stops);
  }
});

test("C1: a request and its withdrawal that come together run nothing", async (t) => {
  const both: Application = async (stream) => {
    void stream.emit(request("a"));
    void stream.emit(takingBack("a"));
    for await (const input of stream.inputs) {
      if (input.kind === "chunk" && heard(input.body).startsWith("a ")) {
        await stream.end(bytes(heard(input.body)));
        return;
      }
    }
  };
  const rig = await Rig.start(t, both);
  const stream = await rig.client({ tools: toolsOf({}) }).open({ first: bytes("go") });
  assert.equal(await heardFrom(stream), "a aborted");
});
