/**
 * What it costs to go on does not depend on how much was said before.
 *
 * Conversations with 10, 100 and 1,000 earlier messages go on with a tool result and then with a new message. What goes to the stream
 * server and what anybody writes to a disk for it is counted: as many chunks, events, blobs and commits, and as many bytes but for
 * the ids in the state, of which there are few, whatever the length.
 *
 * What must grow, and is not counted here: an OpenAI client sends its whole history with every request, it has to be hashed to be
 * recognised, and a provider that keeps nothing is sent the whole prompt.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { fromBinary } from "../../src/protocol/message.ts";
import { createAgent } from "../../src/agent/index.ts";
import { AgentServerMessageSchema } from "../../src/protocol/messages.ts";
import type {
  Application,
  ApplicationBlobs,
  ApplicationStream,
  ClientInput,
} from "../../src/server/index.ts";
import { bodyOf, Exchange, type Line, type Reply, result, said, user } from "./openai-user.ts";
import { lastTold, modelsOf, PacedModel } from "./paced-model.ts";
import { World } from "./world.ts";

/** What one request costs beside the request itself and the provider. */
interface Cost {
  chunks: number;
  events: number;
  checkpoints: number;
  /** Blobs that the server read from the conversation. */
  asked: number;
  blobs: number;
  commits: number;
  batches: number;
  streamBytes: number;
  diskBytes: number;
}

const NOTHING: Cost = {
  chunks: 0,
  events: 0,
  checkpoints: 0,
  asked: 0,
  blobs: 0,
  commits: 0,
  batches: 0,
  streamBytes: 0,
  diskBytes: 0,
};

/** The agent, with everything counted that is said on its streams. */
class CountedAgent {
  cost = { ...NOTHING };
  readonly #model: PacedModel;
  #agent: Application;

  constructor(model: PacedModel) {
    this.#model = model;
    this.#agent = this.#newAgent();
  }

  readonly application: Application = (stream) => this.#agent(this.#counted(stream));

  /** As another process would: nothing is remembered. */
  forget(): void {
    this.#agent = this.#newAgent();
  }

  #newAgent(): Application {
    return createAgent({ models: modelsOf(this.#model) });
  }

  #counted(stream: ApplicationStream): ApplicationStream {
    const emit: ApplicationStream["emit"] = (body, kept) => {
      this.#said(body);
      return stream.emit(body, kept);
    };
    const end = (body: Uint8Array, reason?: "completed" | "failed"): Promise<number> => {
      this.#said(body);
      return stream.end(body, reason);
    };
    const inputs = this.#hearing(stream.inputs);
    const conversation = stream.conversation && this.#reading(stream.conversation);
    const own = new Map<string | symbol, unknown>(Object.entries({ emit, end, inputs, conversation }));
    const get = (_: ApplicationStream, name: string | symbol): unknown => {
      const value: unknown = own.get(name) ?? Reflect.get(stream, name);
      return typeof value === "function" ? value.bind(stream) : value;
    };
    return new Proxy(stream, { get });
  }

  #reading(blobs: ApplicationBlobs): ApplicationBlobs {
    const get = (id: string): Promise<Uint8Array | undefined> => {
      this.cost.asked++;
      return blobs.get(id);
    };
    return { put: (bytes) => blobs.put(bytes), get };
  }

  async *#hearing(inputs: AsyncIterable<ClientInput>): AsyncGenerator<ClientInput, void, undefined> {
    for await (const input of inputs) {
      if (input.kind === "chunk") this.#heard(input.body);
      yield input;
    }
  }

  #heard(body: Uint8Array): void {
    this.cost.chunks++;
    this.cost.streamBytes += body.length;
  }

  #said(body: Uint8Array): void {
    const { message } = fromBinary(AgentServerMessageSchema, body);
    this.cost.events++;
    this.cost.streamBytes += body.length;
    if (message.case === "conversationCheckpointUpdate") this.cost.checkpoints++;
  }
}

const lookingModel = (): PacedModel =>
  new PacedModel((call) => {
    const told = lastTold(call);
    return told.startsWith("Look")
      ? ["I look. ", { tool: "look", args: { at: "it" } }]
      : [`You said ${told}`];
  });

/** A conversation with so many messages, and what each thing costs that the client says next. */
async function conversation(t: TestContext, earlier: number) {
  const model = lookingModel();
  const agent = new CountedAgent(model);
  const world = await World.begin(t, model, { application: agent.application });
  const count = (): void => {
    world.life.onWrite = (name, given) => {
      const { cost } = agent;
      if (name === "append") cost.commits++;
      else cost.batches++;
      cost.diskBytes += bytesIn(given);
    };
  };
  count();
  const lines: Line[] = Array.from({ length: earlier }, (_, at) =>
    at % 2 === 0 ? user(`Question ${at}`) : said({ text: `Answer ${at}`, calls: [] }),
  );
  const ask = async (line: Line): Promise<readonly [Reply, Cost]> => {
    agent.cost = { ...NOTHING };
    const blobs = await world.keptBlobs();
    lines.push(line);
    const reply = await new Exchange(world.url, bodyOf(lines)).reply();
    assert.ok(reply.isWhole, reply.body);
    lines.push(said(reply));
    while (world.gateway.sessions.some(({ state }) => state === "generating")) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    agent.cost.blobs = (await world.keptBlobs()) - blobs;
    return [reply, agent.cost];
  };
  const restart = async (): Promise<void> => {
    agent.forget();
    await world.restart();
    count();
  };
  return { world, model, ask, restart };
}

/** It goes on with what a tool said, and then with what the user says. */
async function goOn(t: TestContext, earlier: number) {
  const { world, model, ask } = await conversation(t, earlier);
  const [asked, fresh] = await ask(user("Look around"));
  assert.equal(asked.calls.length, 1);
  const [, toolResult] = await ask(result(asked.calls[0]?.id ?? "", "a table"));
  const [, message] = await ask(user("Thanks"));
  assert.equal(model.calls.at(-1)?.messages.length, earlier + 5);
  const { continuedTurns, continuedConversations } = world.gateway.counters;
  assert.deepEqual([continuedTurns, continuedConversations], [1, 1]);
  return { fresh, toolResult, message };
}

function bytesIn(value: unknown): number {
  if (value instanceof Uint8Array) return value.length;
  if (typeof value !== "object" || value === null) return 0;
  return Object.values(value).reduce((sum: number, one: unknown) => sum + bytesIn(one), 0);
}

/** The ids in a state take so much more at the most. It is in chunk 0 and in a checkpoint, */
const STREAM_BYTES_MORE_MAX = 2_048;
/** and each of those is in the server's log, in the client's journal or in the session's record. */
const DISK_BYTES_MORE_MAX = 3 * STREAM_BYTES_MORE_MAX;
/** What happens to be written together shares a commit. */
const WRITES_MORE_MAX = 3;

function assertNoDearer(cost: Cost, least: Cost): void {
  const { chunks, events, checkpoints, asked, blobs } = cost;
  assert.deepEqual({ ...least, chunks, events, checkpoints, asked, blobs }, least);
  assert.ok(cost.commits <= least.commits + WRITES_MORE_MAX, `${cost.commits} commits`);
  assert.ok(cost.batches <= least.batches + WRITES_MORE_MAX, `${cost.batches} batches`);
  assert.ok(cost.streamBytes < least.streamBytes + STREAM_BYTES_MORE_MAX, `${cost.streamBytes} to and fro`);
  assert.ok(cost.diskBytes < least.diskBytes + DISK_BYTES_MORE_MAX, `${cost.diskBytes} to disks`);
}

test("going on costs the same after 10, 100 and 1,000 messages: with a tool result, and with a new message", async (t) => {
  const short = await goOn(t, 10);
  for (const earlier of [100, 1_000]) {
    const long = await goOn(t, earlier);
    // These lengths were chosen so that no page is filled on the way; one that is costs one blob more, once.
    for (const [name, cost] of Object.entries(long))
      t.diagnostic(`${earlier} ${name} ${JSON.stringify(cost)}`);
    assert.ok(long.fresh.streamBytes > 100 * earlier, "the measure sees a history that is sent");
    assertNoDearer(long.toolResult, short.toolResult);
    assertNoDearer(long.message, short.message);
  }
});

test("a server that was restarted reads once what it has forgotten, and going on costs as before", async (t) => {
  const { model, ask, restart } = await conversation(t, 100);
  const [asked] = await ask(user("Look around"));
  await restart();
  // The open turn: its request brought the history along, and the log has it.
  const [, toolResult] = await ask(result(asked.calls[0]?.id ?? "", "a table"));
  assert.equal(toolResult.asked, 0);
  await restart();
  const [, first] = await ask(user("Thanks"));
  assert.equal(model.calls.at(-1)?.messages.length, 105);
  // What the request names and does not bring: 104 messages and the six pages that they fill.
  assert.equal(first.asked, 104 + 6);
  const [, second] = await ask(user("More"));
  const [, short] = await (await conversation(t, 10)).ask(user("Hi"));
  assert.equal(second.asked, 0);
  assert.ok(second.streamBytes < short.streamBytes + STREAM_BYTES_MORE_MAX);
  assert.equal(model.calls.at(-1)?.messages.length, 107);
});
