/**
 * A server dies in the middle of an answer, and the model's call does not: the same generation continues.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createAgent, ModelFailure } from "../../src/agent/index.ts";
import { type AgentServerMessage, FailureKind, TurnEndReason } from "../../src/protocol/messages.ts";
import { HoldingModel } from "./holding-model.ts";
import { KeepingClient, readDone, shellDone } from "./keeping-client.ts";
import { endOf, kindsOf, textOf } from "./told.ts";
import { TurnHost } from "./turn-host.ts";

interface Rehearsal {
  readonly host: TurnHost;
  readonly client: KeepingClient;
  readonly model: HoldingModel;
}

function prepared(isFinal = true): Rehearsal {
  const model = new HoldingModel(
    [
      { think: "what is # about?" },
      "Looking # times. ",
      { tool: "shell", args: { command: "ls 🌊" } },
      { tool: "read", args: { path: "a" } },
    ],
    ["It is # and nothing else."],
  );
  const host = new TurnHost();
  const client = new KeepingClient(host);
  client.carryOut = ({ message }) => (message.case === "readArgs" ? readDone("old") : shellDone("a\n"));
  client.ask("Go", { options: { shownIsFinal: isFinal } });
  return { host, client, model };
}

/** Every run is another process: only the logs and the held calls outlive it. */
async function play(rehearsal: Rehearsal, ...loseAt: readonly number[]): Promise<Rehearsal> {
  const { host, model } = rehearsal;
  for (const at of loseAt) {
    host.loseAt = at;
    if (await host.run(createAgent({ models: model.models }))) return rehearsal;
  }
  await host.finish(createAgent({ models: model.models }));
  return rehearsal;
}

const TEXT = "Looking 1 times. It is 2 and nothing else.";
const whole = await play(prepared());
const EVENTS = whole.host.events.length;

/** What a client has to forget. A call that had not even left begins anew, and has said nothing. */
function takenBack(messages: readonly AgentServerMessage[]): readonly string[] {
  const kinds = kindsOf(messages);
  return kinds.flatMap((kind, at) => {
    if (kind !== "stepRestarted") return [];
    const since = kinds.slice(0, at).findLastIndex((one) => /^step(Started|Restarted)$/.test(one));
    return kinds.slice(since + 1, at).filter((one) => one !== "stepRequested");
  });
}

function assertWhole({ host, client, model }: Rehearsal): void {
  assert.equal(endOf(host.messages).reason, TurnEndReason.COMPLETED);
  assert.equal(textOf(host.messages), TEXT);
  assert.equal(model.generations, 2, "each step is generated once");
  assert.deepEqual(takenBack(host.messages), [], "nothing is taken back");
  assert.deepEqual([...client.effects.values()], [1, 1]);
  assert.equal(client.checkpoint?.messages.length, whole.client.checkpoint?.messages.length);
}

test("G6: killed after any event, twice, the same generation continues behind what the log has", async () => {
  assertWhole(whole);
  assert.equal(whole.model.held.size, 0, "what is on disk need not be held");
  for (let at = 1; at < EVENTS; at++) {
    try {
      assertWhole(await play(prepared(), at, at + 1 + (at % 3)));
    } catch (cause) {
      throw new Error(`killed after event ${at} of ${EVENTS}`, { cause });
    }
  }
});

test("G6: a step is killed more often than it may restart, and continues all the same", async () => {
  const first = kindsOf(whole.host.messages).indexOf("textDelta");
  assertWhole(await play(prepared(), first, first + 2, first + 4, first + 6, first + 8, first + 10));
});

test("G1: a held call that says something else than the log is left, and has said nothing of it", async () => {
  const rehearsal = prepared();
  const { host, model } = rehearsal;
  model.change = (parts) =>
    parts.map((part) => (part.kind === "text" ? { ...part, text: part.text.toUpperCase() } : part));
  await play(rehearsal, kindsOf(whole.host.messages).indexOf("textDelta") + 2);
  assert.equal(textOf(host.messages), "Looking 2 times. It is 3 and nothing else.");
  assert.equal(model.attached, 1);
  assert.ok(!JSON.stringify(host.messages).includes("LOOKING"));
});

test("a call that is not held any more begins anew; a held one that ends too early differs", async () => {
  const kill = kindsOf(whole.host.messages).indexOf("textDelta") + 2;
  for (const isLost of [true, false]) {
    const rehearsal = prepared(false);
    rehearsal.model.change = (parts) => (isLost ? undefined : parts.slice(-1));
    await play(rehearsal, kill);
    assert.equal(textOf(rehearsal.host.messages), "Looking 2 times. It is 3 and nothing else.");
    const restarts = kindsOf(rehearsal.host.messages).filter((kind) => kind === "stepRestarted");
    assert.equal(restarts.length, 1);
    if (!isLost) assert.equal(rehearsal.model.held.size, 0, "what was read to its end in vain is not held");
  }
});

test("a model that holds no calls is not asked for one", async () => {
  const rehearsal = prepared(false);
  rehearsal.model.holdsCalls = false;
  await play(rehearsal, kindsOf(whole.host.messages).indexOf("textDelta") + 2);
  assert.equal(rehearsal.model.attached, 0);
  assert.equal(textOf(rehearsal.host.messages), "Looking 2 times. It is 3 and nothing else.");
});

test("a user who cancels while a held call is read again keeps what was said", async () => {
  const rehearsal = prepared();
  const { host, client, model } = rehearsal;
  const kill = kindsOf(whole.host.messages).indexOf("toolCallStarted") + 2;
  host.loseAt = kill;
  await host.run(createAgent({ models: model.models }));
  const action = { action: { case: "cancelAction", value: {} } } as const;
  host.say({ case: "conversationAction", value: action });
  await host.finish(createAgent({ models: model.models }));
  assert.equal(endOf(host.messages).reason, TurnEndReason.ABORTED);
  assert.equal(textOf(host.messages), "Looking 1 times. ");
  assert.equal(client.effects.size, 0, "nothing of it is carried out");
  const over = kindsOf(host.messages).filter((kind) => kind === "toolCallCompleted");
  assert.equal(over.length, 1, "the call that was whole is over");
});

test("F1: a held call that fails without a word is made again, and one that breaks for good fails the turn", async () => {
  for (const kind of ["stepStarted", "textDelta"]) {
    const rehearsal = prepared();
    rehearsal.model.change = () => {
      throw new ModelFailure("rate_limited", "too many", { status: 429, isPassing: true });
    };
    await play(rehearsal, kindsOf(whole.host.messages).indexOf(kind) + (kind === "textDelta" ? 3 : 1));
    const { reason, failure } = endOf(rehearsal.host.messages);
    if (kind === "stepStarted") assert.equal(reason, TurnEndReason.COMPLETED);
    else assert.equal(failure?.kind, FailureKind.UPSTREAM_INTERRUPTED);
    if (kind === "textDelta") assert.equal(rehearsal.model.generations, 1);
  }
});
