/**
 * `holdfast serve` as a process with its database, killed with SIGKILL and started again where it was.
 */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import type { Act } from "../../agent/models/providers/server.ts";
import { Cli, type Running } from "../../cli/cli-process.ts";
import { bodyOf, Exchange, type Line, type Reply, result, said, user } from "../openai-user.ts";
import { chunkOf, MODEL } from "../../agent/models/providers/formats.ts";
import {
  anthropicProvider,
  openaiProvider,
  type ScriptedProvider,
} from "../../agent/models/providers/scripted.ts";

/** A server in one place, started again and again; on another port each time, because another process may have got the one before. */
class Place {
  readonly #cli: Cli;
  #running: Running | undefined;

  constructor(t: TestContext, provider: ScriptedProvider, type: "anthropic" | "openai-compatible") {
    this.#cli = new Cli(t);
    const local = { type, baseURL: provider.baseURL, apiKeyEnv: "LOCAL_KEY", prefill: "off" };
    const config = { providers: { local }, models: { offered: [`local/${MODEL}`] } };
    writeFileSync(join(this.#cli.home, "holdfast.config.json"), JSON.stringify(config));
  }

  async start(): Promise<void> {
    this.#running = await this.#cli.serve(["--port", "0"], { LOCAL_KEY: "of-the-provider" });
  }

  async kill(): Promise<void> {
    this.#running?.signal("SIGKILL");
    await this.#running?.exit;
  }

  async stop(): Promise<void> {
    this.#running?.signal("SIGTERM");
    await this.#running?.exit;
  }

  ask(messages: readonly Line[]): Exchange {
    const body = bodyOf(messages, { model: `local/${MODEL}` });
    return new Exchange(this.#running?.url ?? "", body, { apiKey: this.#running?.apiKey ?? "" });
  }

  counted(how: string): Promise<number> {
    return this.#metric(`holdfast_gateway_requests_total{how="${how}"}`);
  }

  generating(): Promise<number> {
    return this.#metric('holdfast_gateway_sessions{state="generating"}');
  }

  async #metric(name: string): Promise<number> {
    const metrics = await (await fetch(`${this.#running?.url}/metrics`)).text();
    const line = metrics.split("\n").find((one) => one.startsWith(name));
    return Number(line?.slice(name.length));
  }
}

function resultsOf({ calls }: Reply): readonly Line[] {
  return calls.map(({ id }) => result(id, "a house"));
}

test("killed between the tool calls and their results: the turn continues, with the provider's own history", async (t) => {
  const provider = await anthropicProvider(t, (messages) =>
    messages.length === 1
      ? { thinking: "where?", text: "Looking.", calls: [{ name: "look", args: { at: "a" } }] }
      : { text: "There is a house." },
  );
  const place = new Place(t, provider, "anthropic");
  await place.start();
  const asked = [user("Look there")];
  const looked = await place.ask(asked).reply();
  assert.equal(looked.finish, "tool_calls", looked.body);
  await place.kill();
  await place.start();
  const answer = await place.ask([...asked, said(looked), ...resultsOf(looked)]).reply();
  // Without reuse the provider would refuse: the client cannot send its signed reasoning back.
  assert.equal(answer.text, "There is a house.", answer.body);
  assert.equal(answer.streamId, looked.streamId);
  assert.equal(provider.calls.length, 2);
  assert.equal(await place.counted("continued_turn"), 1);
});

/** Half of an answer, and the rest when it is let go on. */
function inTwoHalves(goOn: Promise<void>): Act {
  return async (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    const send = (...chunks: readonly object[]): void => {
      for (const chunk of chunks) response.write(`data: ${JSON.stringify(chunk)}\n\n`);
    };
    send(chunkOf({ role: "assistant", content: "Half of " }));
    await goOn;
    send(chunkOf({ content: "it." }), chunkOf({}, "stop"));
    response.end("data: [DONE]\n\n");
  };
}

test("killed in the middle of an answer: a retry has all of it for one model call more", async (t) => {
  let calls = 0;
  const never = new Promise<void>(() => undefined);
  const provider = await openaiProvider(t, () =>
    calls++ === 0 ? inTwoHalves(never) : { text: "All of the answer." },
  );
  const place = new Place(t, provider, "openai-compatible");
  await place.start();
  const cut = place.ask([user("Tell me")]);
  await cut.until("Half of");
  await place.kill();
  const before = await cut.reply();
  assert.ok(!before.isWhole);
  await place.start();
  const again = await place.ask([user("Tell me")]).reply();
  assert.equal(again.text, "All of the answer.", again.body);
  assert.equal(again.streamId, before.streamId);
  assert.equal(provider.calls.length, 2);
});

test("stopped in the middle of an answer behind a tool: its client is told what a retry costs, and that is what it costs", async (t) => {
  let answers = 0;
  const never = new Promise<void>(() => undefined);
  const provider = await openaiProvider(t, (messages) => {
    if (messages.length === 1) return { calls: [{ name: "look", args: { at: "a" } }] };
    return answers++ === 0 ? inTwoHalves(never) : { text: "All of the answer." };
  });
  const place = new Place(t, provider, "openai-compatible");
  await place.start();
  const asked = [user("Look there")];
  const looked = await place.ask(asked).reply();
  const results = [...asked, said(looked), ...resultsOf(looked)];
  const cut = place.ask(results);
  await cut.until("Half of");
  await place.stop();
  const { body, isWhole, streamId } = await cut.reply();
  assert.ok(!isWhole);
  assert.match(body, /finished steps are kept, and a step that was cut off continues or is generated again/);
  await place.start();
  const again = await place.ask(results).reply();
  assert.equal(again.text, "All of the answer.", again.body);
  assert.equal(again.streamId, streamId);
  assert.equal(provider.calls.length, 3, "the tool's step was not generated again, the cut one was");
});

test("killed when the answer was complete and nobody had it: a retry costs no model call", async (t) => {
  const gate = Promise.withResolvers<void>();
  const provider = await openaiProvider(t, () => inTwoHalves(gate.promise));
  const place = new Place(t, provider, "openai-compatible");
  await place.start();
  const cut = place.ask([user("Tell me")]);
  await cut.until("Half of");
  cut.hangUp();
  gate.resolve();
  while ((await place.generating()) > 0) await new Promise((resolve) => setImmediate(resolve));
  await place.kill();
  await place.start();
  const told = await place.ask([user("Tell me")]).reply();
  assert.equal(told.text, "Half of it.", told.body);
  assert.equal(told.streamId, (await cut.reply()).streamId);
  assert.equal(provider.calls.length, 1);
  // The kill may have come before the session's record: then the answer is read back from its stream.
  assert.equal((await place.counted("replayed")) + (await place.counted("attached")), 1);
});

test("G7: killed twice while no client waits, an answer is not generated again; its retry is, once", async (t) => {
  const never = new Promise<void>(() => undefined);
  let halves = 0;
  const provider = await openaiProvider(t, (messages) => {
    if (messages.at(-1)?.["content"] !== "Tell me") return { text: "Something else." };
    return halves++ === 0 ? inTwoHalves(never) : { text: "All of the answer." };
  });
  const place = new Place(t, provider, "openai-compatible");
  await place.start();
  const cut = place.ask([user("Tell me")]);
  await cut.until("Half of");
  for (let kills = 0; kills < 2; kills++) {
    await place.kill();
    await place.start();
    // Whole turns of other conversations: longer than a turn that is resumed takes to ask its model.
    for (let at = 0; at < 3; at++) await place.ask([user(`Else ${kills} ${at}`)]).reply();
  }
  assert.equal(halves, 1);
  const again = await place.ask([user("Tell me")]).reply();
  assert.equal(again.text, "All of the answer.", again.body);
  assert.equal(again.streamId, (await cut.reply()).streamId);
  assert.equal(halves, 2);
});
