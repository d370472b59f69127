/** Conversations whose ids fill several pages: what the model is told, what a server that knows nothing asks for, what it refuses. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { create, toBinary } from "../../src/protocol/message.ts";
import { createAgent } from "../../src/agent/index.ts";
import { encodeChatMessage, textOf as wordsOf } from "../../src/protocol/chat-message.ts";
import {
  allIds,
  countOf,
  idsIn,
  type IdList,
  messageIds,
  turnIds,
  withIds,
} from "../../src/protocol/id-pages.ts";
import {
  BlobKind,
  type ConversationState,
  ConversationStateSchema,
  FailureKind,
  IdPageSchema,
  PageOfIdsSchema,
  TurnEndReason,
} from "../../src/protocol/messages.ts";
import { KeepingClient, shellDone } from "./keeping-client.ts";
import { ScriptedModel } from "./scripted-model.ts";
import { endOf, kindsOf } from "./told.ts";
import { TurnHost } from "./turn-host.ts";

type Blobs = Map<string, Uint8Array>;

function putInto(blobs: Blobs): (bytes: Uint8Array) => Uint8Array {
  return (bytes) => {
    const id = createHash("sha256").update(bytes).digest();
    blobs.set(id.toString("hex"), bytes);
    return new Uint8Array(id);
  };
}

/** A conversation of so many messages, one word each, and turns, all kept by a client. */
function conversation(blobs: Blobs, count: number): ConversationState {
  const put = putInto(blobs);
  const ids = Array.from({ length: count }, (_, at) => {
    const text = `word ${at}`;
    return put(
      encodeChatMessage({ role: at % 2 === 0 ? "user" : "assistant", content: [{ type: "text", text }] }),
    );
  });
  const messages = withIds(messageIds(undefined), ids, put);
  const turns = withIds(turnIds(undefined), ids.slice(0, count / 2), put);
  return create(ConversationStateSchema, {
    messages: [...messages.ids],
    messagePages: [...messages.pages],
    turns: [...turns.ids],
    turnPages: [...turns.pages],
  });
}

async function idsOf(list: IdList, blobs: Blobs): Promise<readonly string[]> {
  const entries = await allIds(list, async (pages) =>
    pages.map((id) => {
      const page = blobs.get(Buffer.from(id).toString("hex"));
      return page === undefined ? undefined : idsIn(page);
    }),
  );
  assert.ok(entries.every(({ kind }) => kind === "id"));
  return entries.map(({ id }) => Buffer.from(id).toString("hex"));
}

/** One step with a tool, and an answer: four messages more. */
const workingModel = (): ScriptedModel =>
  ScriptedModel.steps([{ tool: "shell", args: { command: "ls" } }], ["Done."]);

interface Gone {
  readonly host: TurnHost;
  readonly client: KeepingClient;
  readonly model: ScriptedModel;
}

/** A turn on top of it. Every run is a process of its own: nothing but the logs outlives it. */
async function goOn(state: ConversationState, blobs: Blobs, loseAt?: number): Promise<Gone> {
  const model = workingModel();
  const host = new TurnHost();
  const client = new KeepingClient(host, new Map(blobs));
  client.carryOut = () => shellDone("a");
  client.ask("Go", { conversationState: state });
  host.loseAt = loseAt;
  while (!(await host.run(createAgent({ models: model.models }))));
  return { host, client, model };
}

test("a server that knows nothing asks for pages and messages once each, and tells the model everything in order", async () => {
  const blobs: Blobs = new Map();
  const state = conversation(blobs, 300);
  const before = await idsOf(messageIds(state), blobs);
  const { host, client, model } = await goOn(state, blobs);
  assert.equal(endOf(host.messages).reason, TurnEndReason.COMPLETED);
  const told = model.calls[0]?.messages.map(wordsOf) ?? [];
  assert.deepEqual(told, [...before.keys()].map((at) => `word ${at}`).concat("Go"));
  // 300 messages are in one page of 256, which names sixteen, and two more.
  assert.equal(kindsOf(host.messages).filter((kind) => kind === "get").length, 300 + 1 + 16 + 2);
  assert.ok(client.checkpoint !== undefined);
  const after = await idsOf(messageIds(client.checkpoint), client.blobs);
  assert.deepEqual(after.slice(0, 300), before, "a strict prefix");
  assert.equal(after.length, 304);
  assert.equal(countOf(turnIds(client.checkpoint)), 151);
});

test("one that remembers asks for nothing, and puts a page when it is full and never again", async () => {
  const blobs: Blobs = new Map();
  let state = conversation(blobs, 20);
  const model = workingModel();
  const agent = createAgent({ models: model.models });
  const pages: number[] = [];
  for (let turn = 0; turn < 30; turn++) {
    const host = new TurnHost();
    const client = new KeepingClient(host, blobs);
    client.carryOut = () => shellDone(`${turn}`);
    client.ask(`Go ${turn}`, { conversationState: state });
    await host.finish(agent);
    assert.ok(client.checkpoint !== undefined);
    state = client.checkpoint;
    if (turn > 0) assert.ok(!kindsOf(host.messages).includes("get"));
    const sets = host.messages.flatMap(({ message }) =>
      message.case === "kvServerMessage" && message.value.message.case === "setBlobArgs"
        ? [message.value.message.value]
        : [],
    );
    pages.push(sets.filter(({ kind }) => kind === BlobKind.ID_PAGE).length);
    assert.equal(model.calls.at(-1)?.messages.length, 20 + turn * 4 + 3);
  }
  assert.equal(countOf(messageIds(state)), 140);
  const filled = pages.reduce((sum, count) => sum + count, 0);
  // 20 messages and 10 turns had filled one; 140 and 40 fill eight and two, and nobody wrote one twice.
  assert.equal(filled, 8 + 2 - 1);
  assert.ok(Math.max(...pages) <= 2, "one of messages and one of turns at the most");
});

test("C0, C4: killed after any event while pages are read and filled, the conversation comes out the same", async () => {
  const blobs: Blobs = new Map();
  // The third of four new messages is the first behind a full page; so is the turn.
  const state = conversation(blobs, 30);
  const whole = await goOn(state, blobs);
  assert.ok(whole.client.checkpoint !== undefined);
  const messages = await idsOf(messageIds(whole.client.checkpoint), whole.client.blobs);
  for (let at = 1; at <= whole.host.events.length; at++) {
    const { client, host } = await goOn(state, blobs, at);
    assert.equal(endOf(host.messages).reason, TurnEndReason.COMPLETED, `killed at ${at}`);
    assert.deepEqual([...client.effects.values()], [1]);
    assert.ok(client.checkpoint !== undefined);
    assert.deepEqual(await idsOf(messageIds(client.checkpoint), client.blobs), messages, `killed at ${at}`);
    assert.deepEqual(client.checkpoint.turnPages, whole.client.checkpoint.turnPages);
  }
});

test("a state from before there were pages is gone on with, and is in pages afterwards", async () => {
  const blobs: Blobs = new Map();
  const paged = conversation(blobs, 100);
  const ids = await idsOf(messageIds(paged), blobs);
  const old = create(ConversationStateSchema, { messages: ids.map((id) => Buffer.from(id, "hex")) });
  const { client, model } = await goOn(old, blobs);
  assert.equal(model.calls[0]?.messages.length, 101);
  assert.ok(client.checkpoint !== undefined && client.checkpoint.messages.length <= 16);
  assert.deepEqual((await idsOf(messageIds(client.checkpoint), client.blobs)).slice(0, 100), ids);
});

test("a summary begins a new list, and the turns stay in their pages", async () => {
  const blobs: Blobs = new Map();
  const state = conversation(blobs, 100);
  const model = ScriptedModel.steps(["We talked."]);
  const host = new TurnHost();
  const client = new KeepingClient(host, blobs);
  const action = { action: { case: "summarizeAction", value: {} } } as const;
  client.request({ action, conversationState: state });
  await host.finish(createAgent({ models: model.models }));
  assert.equal(model.calls[0]?.messages.length, 101);
  assert.deepEqual([client.checkpoint?.messagePages, client.checkpoint?.messages.length], [[], 1]);
  assert.deepEqual(client.checkpoint?.turnPages, state.turnPages);
});

async function failureOf(state: ConversationState, blobs: Blobs): Promise<FailureKind | undefined> {
  const { host, model } = await goOn(state, blobs);
  assert.equal(model.calls.length, 0);
  return endOf(host.messages).failure?.kind;
}

test("E8: a page that is missing, is no page, or cannot be, ends the turn with words", async () => {
  const blobs: Blobs = new Map();
  const state = conversation(blobs, 20);
  const page = Buffer.from(state.messagePages[0]?.page ?? []).toString("hex");
  const without = new Map(blobs);
  without.delete(page);
  assert.equal(await failureOf(state, without), FailureKind.BLOB_MISSING);
  const put = putInto(blobs);
  const withPage = (bytes: Uint8Array, count = 16): ConversationState =>
    create(ConversationStateSchema, {
      messagePages: [create(PageOfIdsSchema, { page: put(bytes), count })],
    });
  const word = blobs.get(Buffer.from(state.messages[0] ?? []).toString("hex")) ?? new Uint8Array();
  assert.equal(await failureOf(withPage(word), blobs), FailureKind.INVALID_REQUEST);
  assert.equal(await failureOf(withPage(new Uint8Array(2_000)), blobs), FailureKind.INVALID_REQUEST);
  // Its ids would be those of pages, and are not.
  const real = blobs.get(page) ?? new Uint8Array();
  assert.equal(await failureOf(withPage(real, 256), blobs), FailureKind.INVALID_REQUEST);
  assert.equal(await failureOf(withPage(real, 15), blobs), FailureKind.INVALID_REQUEST);
});

test("F2: pages that name themselves over and over are no way to make a server read without end", async () => {
  const blobs: Blobs = new Map();
  const put = putInto(blobs);
  const state = conversation(blobs, 17);
  const [small] = state.messagePages;
  assert.ok(small !== undefined);
  const repeated = Array.from({ length: 16 }, () => small.page);
  const page = put(toBinary(IdPageSchema, create(IdPageSchema, { ids: repeated })));
  const pages = Array.from({ length: 20 }, () => create(PageOfIdsSchema, { page, count: 256 }));
  const long = create(ConversationStateSchema, { messagePages: pages });
  assert.equal(countOf(messageIds(long)), 5_120);
  assert.equal(await failureOf(long, blobs), FailureKind.CONTEXT_TOO_LONG);
});

test("E8: a conversation has so many turns and not one more", async () => {
  const blobs: Blobs = new Map();
  const page = new Uint8Array(32).fill(1);
  const pages = [4_096, 256, 16].flatMap((count) =>
    Array.from({ length: 15 }, () => create(PageOfIdsSchema, { page, count })),
  );
  const ended = async (turns: number): Promise<FailureKind | undefined> => {
    const newest = Array.from({ length: turns - 65_520 }, (_, at) => new Uint8Array(32).fill(at + 2));
    const state = create(ConversationStateSchema, { turnPages: pages, turns: newest });
    for (const id of [page, ...newest]) blobs.set(Buffer.from(id).toString("hex"), new Uint8Array());
    const { host } = await goOn(state, blobs);
    return endOf(host.messages).failure?.kind;
  };
  assert.equal(await ended(65_535), undefined);
  assert.equal(await ended(65_536), FailureKind.CONTEXT_TOO_LONG);
});
