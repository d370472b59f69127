/**
 * A turn whose server dies: after every single event, twice in a row, in the middle of anything.
 *
 * The other side answers each exec when it is asked for; one that were asked twice would take effect twice.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createAgent } from "../../src/agent/index.ts";
import { FailureKind, TurnEndReason } from "../../src/protocol/messages.ts";
import { KeepingClient, readDone, shellDone, writeDone } from "./keeping-client.ts";
import { ScriptedModel } from "./scripted-model.ts";
import { endOf, kindsOf, textOf } from "./told.ts";
import { TurnHost } from "./turn-host.ts";

const ANSWER = "Now I know everything.";

/** Three steps: text and parallel tools, an edit with its two execs and a list, the answer. */
function scriptedModel(): ScriptedModel {
  return ScriptedModel.steps(
    [
      { think: "what is there?" },
      "Looking. ",
      { tool: "shell", args: { command: "ls" } },
      { tool: "read", args: { path: "a" } },
    ],
    [
      { tool: "edit", args: { path: "a", edits: [{ old_text: "old", new_text: "new" }] } },
      { tool: "todo_write", args: { todos: [{ id: "1", text: "all", status: "completed" }] } },
      { tool: "nothing", args: {} },
    ],
    [ANSWER],
  );
}

interface Rehearsal {
  readonly host: TurnHost;
  readonly client: KeepingClient;
  readonly model: ScriptedModel;
}

async function rehearse(...loseAt: readonly number[]): Promise<Rehearsal> {
  const model = scriptedModel();
  const host = new TurnHost();
  const client = new KeepingClient(host);
  client.carryOut = ({ message }) =>
    message.case === "readArgs"
      ? readDone("old")
      : message.case === "writeArgs"
        ? writeDone(3)
        : shellDone("a\n");
  client.ask("Go");
  // Every start is another process: nothing but the logs outlives it.
  for (const at of loseAt) {
    host.loseAt = at;
    if (await host.run(createAgent({ models: model.models }))) return { host, client, model };
  }
  await host.finish(createAgent({ models: model.models }));
  return { host, client, model };
}

const whole = await rehearse();

function assertSame({ host, client }: Rehearsal): void {
  assert.equal(endOf(host.messages).reason, TurnEndReason.COMPLETED);
  assert.equal(textOf(host.messages), textOf(whole.host.messages));
  assert.deepEqual([...client.effects.values()], [1, 1, 1, 1], "no exec is asked twice");
  assert.deepEqual(client.checkpoint?.todos, whole.client.checkpoint?.todos);
  assert.equal(client.checkpoint?.messages.length, whole.client.checkpoint?.messages.length);
  const completed = kindsOf(host.messages).filter((kind) => kind === "stepCompleted");
  assert.equal(completed.length, 3, "a finished step is not run again");
  const calls = kindsOf(host.messages).filter((kind) => kind === "toolCallCompleted");
  assert.equal(calls.length, 5, "a call is over once");
}

test("C0, C1: killed after any event, the turn ends as if nothing had happened, with at most one model call more", async () => {
  const events = whole.host.events.length;
  assert.ok(events > 40, `only ${events} events: nothing much happens`);
  for (let at = 1; at <= events; at++) {
    const rehearsal = await rehearse(at);
    try {
      assertSame(rehearsal);
      const { model, host } = rehearsal;
      const restarts = kindsOf(host.messages).filter((kind) => kind === "stepRestarted").length;
      assert.ok(model.calls.length <= whole.model.calls.length + 1);
      assert.ok(restarts <= 1);
    } catch (cause) {
      throw new Error(`killed after event ${at} of ${events}`, { cause });
    }
  }
});

test("C0, C1: killed again while it recovers, also", async () => {
  const events = whole.host.events.length;
  for (let at = 1; at <= events; at += 3) {
    for (const later of [1, 2, 5]) {
      const rehearsal = await rehearse(at, at + later);
      try {
        assertSame(rehearsal);
      } catch (cause) {
        throw new Error(`killed after events ${at} and ${at + later}`, { cause });
      }
    }
  }
});

test("F1: a step that is cut off again and again fails the turn after three restarts", async () => {
  const model = new ScriptedModel(() => ["word ".repeat(50)]);
  const host = new TurnHost();
  const client = new KeepingClient(host);
  client.ask("Go");
  let isOver = false;
  let runs = 0;
  for (; !isOver && runs < 20; runs++) {
    host.loseAt = host.events.length + 8;
    isOver = await host.run(createAgent({ models: model.models }));
  }
  assert.equal(model.calls.length, 4);
  assert.equal(endOf(host.messages).failure?.kind, FailureKind.RESTARTS_EXHAUSTED);
  assert.ok(client.checkpoint !== undefined, "the question is kept: the turn can be continued");
});

test("F1: so does one whose call takes the server down at once, before anything of it is on disk", async () => {
  const host = new TurnHost();
  const model = new ScriptedModel(() => {
    host.lose();
    return ["never"];
  });
  const client = new KeepingClient(host);
  client.ask("Go");
  let isOver = false;
  for (let runs = 0; !isOver && runs < 20; runs++) {
    isOver = await host.run(createAgent({ models: model.models }));
  }
  assert.ok(isOver, `not over after ${model.calls.length} calls`);
  // The first one of a turn begins while its request is on its way to the disk: it may go uncounted.
  assert.ok(model.calls.length <= 5, `${model.calls.length} calls`);
  assert.equal(endOf(host.messages).failure?.kind, FailureKind.RESTARTS_EXHAUSTED);
});

test("D3: aborted after any event, only the end follows what was accepted before", async () => {
  const events = whole.host.events.length;
  for (let at = 1; at < events; at++) {
    const model = scriptedModel();
    const host = new TurnHost();
    const client = new KeepingClient(host);
    const answer = host.onEvent;
    let accepted = 0;
    client.carryOut = ({ message }) => (message.case === "readArgs" ? readDone("old") : shellDone("a\n"));
    host.onEvent = (message, eventId) => {
      if (eventId === at) {
        accepted = host.accepted;
        host.abort();
      }
      answer(message, eventId);
    };
    client.ask("Go");
    await host.finish(createAgent({ models: model.models }));
    // The end itself may have been accepted by then.
    const end = accepted === events ? TurnEndReason.COMPLETED : TurnEndReason.ABORTED;
    assert.equal(endOf(host.messages).reason, end, `aborted after event ${at}`);
    assert.equal(host.events.length, Math.min(accepted + 1, events), `aborted after event ${at}`);
  }
});

test("D2: another client takes over: what was asked and not answered is unknown, and the turn goes on", async () => {
  const model = scriptedModel();
  const host = new TurnHost();
  const client = new KeepingClient(host);
  client.carryOut = ({ message }) =>
    message.case === "shellStreamArgs"
      ? undefined
      : message.case === "readArgs"
        ? readDone("old")
        : writeDone(3);
  const answer = host.onEvent;
  host.onEvent = (message, eventId) => {
    answer(message, eventId);
    const update = message.message.case === "interactionUpdate" ? message.message.value.message : undefined;
    // The read is over, the command still runs.
    if (update?.case === "toolCallCompleted" && update.value.toolCall?.tool === "read") {
      host.hear({ kind: "takeover", sinceSeqno: host.inputs.length, sinceEvent: eventId });
    }
  };
  client.ask("Go");
  await host.finish(createAgent({ models: model.models }));
  assert.equal(endOf(host.messages).reason, TurnEndReason.COMPLETED);
  const told = model.calls[1]?.messages.at(-1);
  assert.deepEqual(told?.role === "tool" ? told.content.map(({ outcome }) => outcome) : [], [
    "unknown",
    "done",
  ]);
});

test("A8: a second result for an exec is ignored", async () => {
  const model = ScriptedModel.steps([{ tool: "shell", args: { command: "x" } }], ["done"]);
  const host = new TurnHost();
  const client = new KeepingClient(host);
  client.carryOut = ({ id, execId, toolCallId }) => {
    host.say({ case: "execClientMessage", value: { id, execId, toolCallId, message: shellDone("first") } });
    return shellDone("second");
  };
  client.ask("Go");
  await host.finish(createAgent({ models: model.models }));
  assert.match(JSON.stringify(model.calls[1]?.messages.at(-1)), /first/u);
});

test("F2: reading a long turn back gives way to others", async () => {
  const calls = Array.from({ length: 250 }, (_, at) => ({ tool: "shell", args: { command: String(at) } }));
  const model = ScriptedModel.steps(calls, ["done"]);
  const host = new TurnHost();
  const client = new KeepingClient(host);
  client.carryOut = () => shellDone("ok");
  client.request({
    keepsBlobs: false,
    action: { action: { case: "userMessageAction", value: { userMessage: { text: "Go" } } } },
  });
  let turnsGiven = 0;
  const environment = {
    monotonic: () => performance.now(),
    random: () => 0,
    after: (delayMs: number, run: () => void) => {
      turnsGiven++;
      const timer = setTimeout(run, delayMs);
      return () => clearTimeout(timer);
    },
  };
  await host.finish(createAgent({ models: model.models, environment }), 751);
  assert.equal(host.runs, 2);
  assert.equal(endOf(host.messages).reason, TurnEndReason.COMPLETED);
  assert.equal(turnsGiven, 1, "once in 751 events");
});
