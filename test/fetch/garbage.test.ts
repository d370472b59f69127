/**
 * Garbage collection stops nothing: an answer whose response nobody holds any more goes on at the gateway, and a retry or a `GET` reads it whole.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { holdfast } from "../../src/fetch/index.ts";
import { until } from "../e2e/rig.ts";
import { PacedModel } from "../gateway/paced-model.ts";
import { World } from "../gateway/world.ts";
import { ALICE_KEY } from "../server/http/rig.ts";

setFlagsFromString("--expose-gc");
const gc: unknown = runInNewContext("gc");

const ROUNDS = 5;

/** Everything that can be collected is, in turns of the loop in which finalizers run. */
async function collect(): Promise<void> {
  assert.ok(typeof gc === "function");
  for (let round = 0; round < ROUNDS; round++) {
    Reflect.apply(gc, undefined, []);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

async function collected(one: WeakRef<object>): Promise<void> {
  for (let tries = 0; one.deref() !== undefined; tries++) {
    assert.ok(tries < 20, "something still holds it");
    await collect();
  }
  await collect();
}

interface Asked {
  readonly world: World;
  readonly model: PacedModel;
  readonly letGo: () => void;
  readonly ask: () => Promise<Response>;
  /** Methods of what was sent. */
  readonly sent: string[];
}

/** A model that says "One ", waits, and ends; each request for it is the same. */
async function asked(t: TestContext, isStreamed: boolean): Promise<Asked> {
  const gate = Promise.withResolvers<void>();
  const model = new PacedModel(() => ["One ", () => gate.promise, "two."]);
  const world = await World.begin(t, model);
  const baseURL = `${world.url}/v1`;
  const sent: string[] = [];
  const given = holdfast({
    baseURL,
    fetch: (input, init) => (sent.push(init?.method ?? "GET"), fetch(input, init)),
  });
  const messages = [{ role: "user", content: "Say" }];
  const headers = {
    authorization: `Bearer ${ALICE_KEY}`,
    "content-type": "application/json",
    "idempotency-key": "the-same",
  };
  const body = JSON.stringify({ model: "paced/model", messages, stream: isStreamed });
  const ask = () => given(`${baseURL}/chat/completions`, { method: "POST", headers, body });
  return { world, model, letGo: gate.resolve, ask, sent };
}

/** The answer ends by itself, and is whole for whoever asks: nothing was said to the gateway meanwhile. */
async function endsWhole({ world, model, letGo, ask, sent }: Asked, path: string | undefined): Promise<void> {
  assert.deepEqual([sent, model.calls[0]?.signal.aborted], [["POST"], false]);
  assert.equal(world.gateway.sessions.filter(({ state }) => state === "generating").length, 1);
  letGo();
  await until(() => world.gateway.sessions.every(({ state }) => state !== "generating"), "it ends");
  if (path !== undefined) {
    const rest = await fetch(`${world.url}${path}`, { headers: { authorization: `Bearer ${ALICE_KEY}` } });
    const text = await rest.text();
    assert.match(text, /"One "[^]*"two\."[^]*\[DONE\]/);
  }
  const again = await ask();
  assert.equal(again.headers.get("x-holdfast-answer"), "replayed");
  assert.match(await again.text(), /One [^]*two\./);
  assert.equal(model.calls.length, 1);
  assert.equal(world.gateway.counters.abandoned, 0);
  assert.deepEqual(sent, ["POST", "POST"]);
}

/** What is left of a response when its last holder is gone. */
interface Left {
  readonly response: WeakRef<Response>;
  readonly path: string | undefined;
}

const PLACES = ["with its head alone", "in its text", "while more of it is waited for"] as const;

for (const place of PLACES) {
  test(`garbage collection of a streamed response, ${place}, stops nothing: the answer ends, and is whole for a GET and a retry`, async (t) => {
    const all = await asked(t, true);
    // Of its own, so that nothing of it is on the stack any more.
    const left = await (async (): Promise<Left> => {
      const response = await all.ask();
      if (place !== "with its head alone") {
        const reader: ReadableStreamDefaultReader<Uint8Array> | undefined = response.body?.getReader();
        for (let said = ""; !said.includes("One ");) {
          const { value } = (await reader?.read()) ?? {};
          assert.ok(value !== undefined, said);
          said += new TextDecoder().decode(value);
        }
        if (place === "while more of it is waited for") void reader?.read();
      }
      assert.equal(response.status, 200);
      const path = response.headers.get("x-holdfast-resume") ?? undefined;
      return { response: new WeakRef(response), path };
    })();
    await collected(left.response);
    await endsWhole(all, left.path);
  });
}

test("garbage collection of a response that is read by its body goes on to its end", async (t) => {
  const { ask, letGo, model, sent } = await asked(t, true);
  const { response, body } = await (async () => {
    const all = await ask();
    return { response: new WeakRef(all), body: all.body };
  })();
  await collected(response);
  letGo();
  let text = "";
  const decoder = new TextDecoder();
  const pieces: AsyncIterable<Uint8Array> = body ?? assert.fail("it has a body");
  for await (const bytes of pieces) text += decoder.decode(bytes, { stream: true });
  assert.match(text, /"One "[^]*"two\."[^]*\[DONE\]/);
  assert.deepEqual([sent, model.calls.length], [["POST"], 1]);
});

test("garbage collection of a call before its response stops nothing", async (t) => {
  const all = await asked(t, false);
  void all.ask();
  await until(() => all.model.calls.length === 1, "the model is asked");
  await collect();
  await endsWhole(all, undefined);
});
