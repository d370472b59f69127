/** G6: a call that the line holds is read again from its first byte, by the next server and by no other. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { ModelPart } from "../../../../src/agent/model.ts";
import { LetGo } from "../../../../src/protocol/let-go.ts";
import { callOf, inTwo, partsOf, ProviderServer, refuses, textIn } from "../providers/server.ts";
import { answers, WIRES } from "../providers/wires.ts";
import { LineRig, until } from "./line-rig.ts";

/** Each test has names of its own on it. */
const rig = new LineRig({ after });

for (const wire of WIRES) {
  test(`G6: ${wire.type}: a server that dies in the middle of an answer costs no second request`, async (t) => {
    const goOn = Promise.withResolvers<void>();
    const provider = await ProviderServer.start(
      t,
      inTwo(wire.answer.slice(0, wire.begun), () => goOn.promise, wire.answer.slice(wire.begun)),
    );
    const first = rig.server();
    const died = new AbortController();
    const heard: ModelPart[] = [];
    const reading = (async () => {
      const call = callOf({ ...rig.named(t.name), signal: died.signal });
      for await (const part of provider.model(wire.type, { line: first }).call(call)) {
        heard.push(part);
        if (part.kind === "text") died.abort(new LetGo("the server dies"));
      }
    })();
    await assert.rejects(reading, LetGo);
    assert.equal(textIn(heard), "north");
    first.close();
    const second = rig.server();
    const model = provider.model(wire.type, { line: second });
    const again = partsOf(model, { ...rig.named(t.name), mode: "attach" });
    goOn.resolve();
    assert.equal(textIn(await again), "northeast");
    assert.equal(provider.asked.length, 1);
    const named = rig.named(t.name);
    assert.deepEqual(await heldCount(named), 1);
    model.done?.(named);
    await until(async () => (await heldCount(named)) === 0);
    await assert.rejects(partsOf(model, { ...rig.named(t.name), mode: "attach" }), { kind: "not_held" });
    assert.equal(provider.asked.length, 1);
  });
}

async function heldCount({ nameOf, hostEpoch }: ReturnType<LineRig["named"]>): Promise<number> {
  const line = rig.server();
  const held = await line.find([nameOf(0), nameOf(1), nameOf(2)], hostEpoch);
  line.close();
  return held.filter((label) => label !== undefined).length;
}

const [compatible] = WIRES;
assert.ok(compatible !== undefined);

test("G4: a stop cancels the call at its provider, and nothing of it is held", async (t) => {
  const provider = await ProviderServer.start(
    t,
    inTwo(compatible.answer.slice(0, compatible.begun), () => new Promise(() => undefined), []),
  );
  const line = rig.server();
  const stop = new AbortController();
  const call = callOf({ ...rig.named(t.name), signal: stop.signal });
  await assert.rejects(async () => {
    for await (const part of provider.model("openai-compatible", { line }).call(call))
      if (part.kind === "text") stop.abort();
  });
  const gone = provider.asked[0]?.gone.then(() => "gone");
  assert.equal(await Promise.race([gone, sleep(20_000, "running", { ref: false })]), "gone");
  assert.equal(await heldCount(rig.named(t.name)), 0);
});

test("D1: a later host reads the call; the earlier one can neither read, cancel nor end it", async (t) => {
  const goOn = Promise.withResolvers<void>();
  const provider = await ProviderServer.start(
    t,
    inTwo(compatible.answer.slice(0, 2), () => goOn.promise, compatible.answer.slice(2)),
  );
  const earlier = rig.named(t.name);
  const stop = new AbortController();
  const begun = Promise.withResolvers<void>();
  const fenced = (async () => {
    const call = callOf({ ...earlier, signal: stop.signal });
    for await (const part of provider.model("openai-compatible", { line: rig.server() }).call(call))
      if (part.kind === "text") begun.resolve();
  })();
  await begun.promise;
  const later = partsOf(provider.model("openai-compatible", { line: rig.server() }), {
    ...rig.named(t.name),
    mode: "attach",
  });
  // Its reader was closed, which it takes for a broken provider.
  await assert.rejects(fenced, { kind: "unavailable" });
  stop.abort();
  const line = rig.server();
  const { nameOf, hostEpoch } = earlier;
  await line.say("cancel", [nameOf(0)], hostEpoch);
  await line.say("done", [nameOf(0)], hostEpoch);
  assert.deepEqual(await line.find([nameOf(0)], hostEpoch), [undefined]);
  goOn.resolve();
  assert.equal(textIn(await later), "northeast");
  assert.equal(provider.asked.length, 1);
});

test("a request that was refused is not held; the one that answers is found by its number", async (t) => {
  const provider = await ProviderServer.start(t, refuses(503, {}), refuses(503, {}), answers(compatible));
  const model = provider.model("openai-compatible", { line: rig.server() });
  assert.equal(textIn(await partsOf(model, rig.named(t.name))), "northeast");
  const named = rig.named(t.name);
  const line = rig.server();
  await until(async () => (await line.find([named.nameOf(1)], named.hostEpoch))[0] === undefined);
  assert.deepEqual(await line.find([0, 1, 2].map(named.nameOf), named.hostEpoch), [
    undefined,
    undefined,
    "2 test/test-model",
  ]);
  assert.equal(textIn(await partsOf(model, { ...rig.named(t.name), mode: "attach" })), "northeast");
  assert.equal(provider.asked.length, 3);
});

test("G2: what is read again is not counted against the step", async (t) => {
  const provider = await ProviderServer.start(t, answers(compatible));
  const model = provider.model("openai-compatible", { line: rig.server() });
  let taken = 0;
  const requests = { take: async () => void taken++, mayWait: () => true };
  await partsOf(model, { ...rig.named(t.name), requests });
  assert.equal(textIn(await partsOf(model, { ...rig.named(t.name), requests })), "northeast");
  assert.equal(taken, 1);
  assert.equal(provider.asked.length, 1);
});

test("a fallback that answered is the one that is read again", async (t) => {
  const provider = await ProviderServer.start(
    t,
    refuses(500, {}),
    refuses(500, {}),
    refuses(500, {}),
    answers(compatible),
  );
  const options = { models: { fallbacks: { "test/test-model": ["test/other"] } } };
  const told = async (): Promise<readonly string[]> => {
    const model = provider.model("openai-compatible", { line: rig.server(), ...options });
    const parts = await partsOf(model, rig.named(t.name));
    const kinds = parts.map((part) => (part.kind === "fallback" ? part.model : part.kind));
    // Words that come at once are one part.
    return kinds.filter((kind, at) => kind !== kinds[at - 1]);
  };
  const first = await told();
  assert.equal(first[0], "test/other");
  assert.deepEqual(await told(), first);
  assert.equal(provider.asked.length, 4);
});

test("no connection to the provider is a failure like any other", async (t) => {
  const provider = await ProviderServer.start(t, answers(compatible));
  const config = { type: "openai-compatible", baseURL: "http://127.0.0.1:9/v1" } as const;
  const model = provider.model("openai-compatible", { line: rig.server(), providers: { test: config } });
  await assert.rejects(partsOf(model, rig.named(t.name)), { kind: "unavailable", message: /ECONNREFUSED/ });
});

test("without a line a call is sent all the same, and attaching says that nothing is held", async (t) => {
  const provider = await ProviderServer.start(t, answers(compatible));
  const model = provider.model("openai-compatible");
  await assert.rejects(partsOf(model, { ...rig.named(t.name), mode: "attach" }), { kind: "not_held" });
  assert.equal(textIn(await partsOf(model, rig.named(t.name))), "northeast");
});
