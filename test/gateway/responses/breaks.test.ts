/**
 * Responses that break, run in the background, and are read again: one model call for each, as with chat.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import OpenAI, { APIError } from "openai";
import type { ResponseStreamEvent } from "openai/resources/responses/responses";
import { ModelFailure } from "../../../src/agent/index.ts";
import { GATEWAY_LIMITS } from "../../../src/gateway/index.ts";
import { until } from "../../e2e/rig.ts";
import { ALICE_KEY, BOB_KEY } from "../../server/http/rig.ts";
import { PacedModel, type Piece } from "../paced-model.ts";
import { World } from "../world.ts";

const MODEL = "paced/model";
const ASKED = { model: MODEL, input: "Tell me" } as const;

interface Told {
  readonly model: PacedModel;
  readonly world: World;
  readonly openai: OpenAI;
  /** The model says the rest. */
  readonly letGo: () => void;
}

/** A model that says half, waits, and says the rest. */
async function begin(t: TestContext, rest: readonly Piece[] = ["and then the rest."]): Promise<Told> {
  const gate = Promise.withResolvers<void>();
  const model = new PacedModel(() => ["The first half ", () => gate.promise, ...rest]);
  const world = await World.begin(t, model);
  const openai = new OpenAI({ baseURL: `${world.url}/v1`, apiKey: ALICE_KEY, maxRetries: 0 });
  return { model, world, openai, letGo: gate.resolve };
}

const NOTED = { tool: "note", args: { text: "one" } };
const WHOLE = "The first half and then the rest.";

const numberOf = (event: ResponseStreamEvent | undefined): number =>
  event !== undefined && "sequence_number" in event ? event.sequence_number : -1;

/** Reads until the first half is there, and leaves. */
async function leftBehind(told: Told, asked = {}): Promise<readonly ResponseStreamEvent[]> {
  const stream = await told.openai.responses.create({ ...ASKED, ...asked, stream: true });
  const events: ResponseStreamEvent[] = [];
  let text = "";
  for await (const event of stream) {
    events.push(event);
    if (event.type === "response.output_text.delta") text += event.delta;
    if (text === "The first half ") break;
  }
  await until(() => told.world.gateway.readers === 0, "the gateway notices");
  return events;
}

function idOf(events: readonly ResponseStreamEvent[]): string {
  const [first] = events;
  assert.ok(first?.type === "response.created");
  return first.response.id;
}

function textOf(events: readonly ResponseStreamEvent[]): string {
  return events.map((event) => (event.type === "response.output_text.delta" ? event.delta : "")).join("");
}

/** What the last event says of the whole. */
function outputTextOf(events: readonly ResponseStreamEvent[]): string {
  const last = events.at(-1);
  assert.ok(last?.type === "response.completed", `not ${last?.type}`);
  const [item] = last.response.output;
  const [part] = item?.type === "message" ? item.content : [];
  return part?.type === "output_text" ? part.text : "";
}

test("a retry of a response that was cut comes to the running answer, also with its names in another order", async (t) => {
  const told = await begin(t);
  const events = await leftBehind(told, { metadata: { a: "1", b: "2" }, client_metadata: { try: "1" } });
  const { input, model } = ASKED;
  const again = { client_metadata: { try: "2" }, input, metadata: { b: "2", a: "1" }, model };
  const retried = told.openai.responses.create(again);
  await until(() => told.world.gateway.counters.attached === 1, "it attaches");
  told.letGo();
  assert.deepEqual([(await retried).id, (await retried).output_text], [idOf(events), WHOLE]);
  assert.equal(told.model.calls.length, 1);
});

test("starting_after gives what follows, event for event as another reader gets it", async (t) => {
  const told = await begin(t, ["and then the rest.", NOTED, NOTED, NOTED]);
  const note = { type: "function", name: "note", parameters: { type: "object" }, strict: false };
  const before = await leftBehind(told, { tools: [note] });
  const id = idOf(before);
  const rest = told.openai.responses.retrieve(id, { stream: true, starting_after: numberOf(before.at(-1)) });
  await until(() => told.world.gateway.readers === 1, "it reads");
  told.letGo();
  const after = await Array.fromAsync(await rest);
  const all = await Array.fromAsync(await told.openai.responses.retrieve(id, { stream: true }));
  assert.deepEqual([...before, ...after], all);
  assert.equal(outputTextOf(all), WHOLE);
  for (const [at, event] of all.entries()) {
    const query = { stream: true, starting_after: numberOf(event) } as const;
    const tail = await Array.fromAsync(await told.openai.responses.retrieve(id, query));
    assert.deepEqual(tail, all.slice(at + 1), `behind event ${at}`);
  }
  assert.equal(told.model.calls.length, 1);
});

test("killed in mid-answer: a reader that returns is told no word twice, and the whole at the end", async (t) => {
  const told = await begin(t);
  const before = await leftBehind(told);
  await told.world.restart();
  told.letGo();
  const query = { stream: true, starting_after: numberOf(before.at(-1)) } as const;
  const after = await Array.fromAsync(await told.openai.responses.retrieve(idOf(before), query));
  assert.equal(textOf([...before, ...after]), WHOLE);
  assert.equal(outputTextOf(after), WHOLE);
  const numbers = [...before, ...after].map(numberOf);
  assert.deepEqual(
    numbers,
    numbers.toSorted((a, b) => a - b),
  );
  assert.equal(told.model.calls.length, 2, "the step that was cut off, and once more");
});

test("a number that was never sent is refused", async (t) => {
  const told = await begin(t);
  told.letGo();
  const { id } = await told.openai.responses.create(ASKED);
  const query = { stream: true, starting_after: 1_000_000 } as const;
  const stream = await told.openai.responses.retrieve(id, query);
  await assert.rejects(
    Array.fromAsync(stream),
    (error) => error instanceof APIError && error.code === "event_ahead",
  );
});

test("background: answered at once, generated without a reader, and there when it is asked for", async (t) => {
  const told = await begin(t);
  const { id, status, background } = await told.openai.responses.create({ ...ASKED, background: true });
  assert.deepEqual([status, background], ["in_progress", true]);
  assert.equal((await told.openai.responses.retrieve(id)).status, "in_progress");
  told.letGo();
  await until(
    async () => (await told.openai.responses.retrieve(id)).status === "completed",
    "it is complete",
  );
  assert.equal((await told.openai.responses.retrieve(id)).output_text, WHOLE);
  assert.equal(told.model.calls.length, 1);
});

test("G7: a background response that a kill cut off is taken up by the next start, without a client", async (t) => {
  const told = await begin(t);
  const { id } = await told.openai.responses.create({ ...ASKED, background: true });
  await until(() => told.model.calls.length === 1, "the model is asked");
  await told.world.restart();
  told.letGo();
  await until(() => told.model.calls.length === 2, "it is taken up");
  await until(
    async () => (await told.openai.responses.retrieve(id)).status === "completed",
    "it is complete",
  );
  assert.equal((await told.openai.responses.retrieve(id)).output_text, WHOLE);
  assert.equal(told.model.calls.length, 2);
});

test("G4: cancel stops the model, and the response says so for good", async (t) => {
  const told = await begin(t);
  const { id } = await told.openai.responses.create({ ...ASKED, background: true });
  await until(() => told.model.calls.length === 1, "the model is asked");
  assert.equal((await told.openai.responses.cancel(id)).status, "cancelled");
  await until(() => told.model.calls[0]?.signal.aborted === true, "the model is stopped");
  await until(async () => (await told.openai.responses.retrieve(id)).status === "cancelled", "it is kept so");
  assert.equal((await told.openai.responses.cancel(id)).status, "cancelled");
  assert.equal(told.model.calls.length, 1);
});

test("background: an API key has as many under way as it may, and one more is refused until one is over", async (t) => {
  const told = await begin(t);
  const ask = () => told.openai.responses.create({ ...ASKED, background: true });
  const ids: string[] = [];
  for (let count = 0; count < GATEWAY_LIMITS.backgroundMax; count++) ids.push((await ask()).id);
  await assert.rejects(
    ask(),
    (error) =>
      error instanceof APIError && error.status === 429 && error.code === "background_limit_exceeded",
  );
  const other = new OpenAI({ baseURL: `${told.world.url}/v1`, apiKey: BOB_KEY, maxRetries: 0 });
  assert.equal((await other.responses.create({ ...ASKED, background: true })).status, "in_progress");
  await told.openai.responses.cancel(ids[0] ?? "");
  await until(
    async () => (await told.openai.responses.retrieve(ids[0] ?? "")).status === "cancelled",
    "it is over",
  );
  assert.equal((await ask()).status, "in_progress");
  await assert.rejects(ask(), APIError);
  told.letGo();
  await until(
    async () => (await told.openai.responses.retrieve(ids[1] ?? "")).status === "completed",
    "they end",
  );
});

test("a background response has a deadline", async (t) => {
  const told = await begin(t);
  const { id } = await told.openai.responses.create({ ...ASKED, background: true });
  await until(() => told.model.calls.length === 1, "the model is asked");
  const [session] = told.world.gateway.sessions;
  assert.deepEqual([session?.isBackground, session?.patienceMs], [true, 3_600_000]);
  await told.openai.responses.cancel(id);
});

test("a model that fails is a status before the first word, and a kept response that failed", async (t) => {
  const model = new PacedModel(() => {
    throw new ModelFailure("context_too_long", "the context is too long");
  });
  const world = await World.begin(t, model);
  const openai = new OpenAI({ baseURL: `${world.url}/v1`, apiKey: ALICE_KEY, maxRetries: 0 });
  await assert.rejects(
    openai.responses.create({ ...ASKED, stream: true }),
    (error) => error instanceof APIError && error.code === "context_length_exceeded",
  );
  const { id } = await openai.responses.create({ ...ASKED, background: true });
  await until(async () => (await openai.responses.retrieve(id)).status === "failed", "it has failed");
  assert.equal((await openai.responses.retrieve(id)).error?.message, "the context is too long");
});
