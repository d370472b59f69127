/**
 * Answers whose generation the provider keeps: read on behind every break, whole and exact, with one generation paid; and none left running.
 */
import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { test, type TestContext } from "node:test";
import { createAgent } from "../../../../src/agent/index.ts";
import { type Model, ModelFailure, type ModelPart } from "../../../../src/agent/model.ts";
import { createModels, type ProviderModels } from "../../../../src/agent/models/index.ts";
import { LetGo } from "../../../../src/protocol/let-go.ts";
import { KeepingClient } from "../../keeping-client.ts";
import { kindsOf } from "../../told.ts";
import { TurnHost } from "../../turn-host.ts";
import { TOOLS } from "../conversation.ts";
import { type Break, type Cut, CUTS } from "../providers/breaking.ts";
import { RESPONSES, type Said } from "../providers/formats.ts";
import {
  FLAVOURS,
  scriptedProvider,
  type ScriptedOptions,
  type ScriptedProvider,
} from "../providers/scripted.ts";
import { API_KEY, callOf, fieldsOf, textIn } from "../providers/server.ts";

const SAID: Said = {
  thinking: "Let me see — über alles.",
  text: "The wind is north by east 🌊, as 風 does.",
  calls: [{ name: "read", args: { path: "ä.txt" }, id: "call_1" }],
};
const FRAMES = RESPONSES.frames(SAID);

/** Short, for what is to run out. */
const SHORT = 1_000;
const LONG = 60_000;

interface Played {
  readonly provider: ScriptedProvider;
  readonly models: ProviderModels;
  readonly model: Model;
}

async function play(t: TestContext, options: ScriptedOptions = {}, clockMs = LONG): Promise<Played> {
  const provider = await scriptedProvider(t, FLAVOURS.responses, { script: () => SAID, ...options });
  const models = createModels({
    providers: { work: { ...provider.config, apiKeyEnv: "KEY", resume: true } },
    environment: { KEY: API_KEY },
    patience: {
      backoffMs: 1,
      firstContentMs: clockMs,
      writingMs: clockMs,
      pingedWritingMs: clockMs,
      thinkingMs: clockMs,
    },
  });
  return { provider, models, model: models.resolve("work/quill") };
}

async function hear(model: Model, signal?: AbortSignal): Promise<readonly ModelPart[] | ModelFailure> {
  const parts: ModelPart[] = [];
  try {
    for await (const part of model.call(
      callOf({ tools: TOOLS, ...(signal === undefined ? {} : { signal }) }),
    ))
      parts.push(part);
    return parts;
  } catch (failure) {
    assert.ok(failure instanceof ModelFailure, String(failure));
    return failure;
  }
}

function assertExact(parts: readonly ModelPart[] | ModelFailure, place: string): void {
  if (parts instanceof ModelFailure) assert.fail(`${place}: ${parts.message}`);
  const thinking = parts.map((part) => (part.kind === "thinking" ? part.text : "")).join("");
  const args = parts.flatMap((part) => (part.kind === "tool_call" ? [part.args] : []));
  assert.deepEqual(
    { thinking, text: textIn(parts), args, last: parts.at(-1)?.kind },
    { thinking: SAID.thinking, text: SAID.text, args: ['{"path":"ä.txt"}'], last: "finish" },
    place,
  );
}

const lineOf = (models: ProviderModels, name: string): string | undefined =>
  models
    .metrics()
    .split("\n")
    .find((line) => line.startsWith(`holdfast_provider_${name}{`));

async function until(isSo: () => boolean, what: string): Promise<void> {
  for (let tries = 0; !isSo(); tries++) {
    assert.ok(tries < 3_000, what);
    await delay(10);
  }
}

/** Each of these takes a clock's time. */
const SLOW: ReadonlySet<Cut> = new Set(["silence", "pings", "comments"]);

test("G1: an answer that breaks behind any event, in any way, is read on and exact; one generation is paid", async (t) => {
  for (const how of CUTS) {
    const places = FRAMES.slice(1, -1).map((_, at) => at + 1);
    const every = SLOW.has(how) ? 6 : how === "utf8" ? 1 : 3;
    const tried = places.filter((place) => place % every === 1 % every);
    await Promise.all(
      tried.map(async (behind) => {
        const { provider, models, model } = await play(
          t,
          { breaks: [{ behind, how }] },
          SLOW.has(how) ? SHORT : LONG,
        );
        const place = `${how} behind ${behind} of ${FRAMES.length}`;
        assertExact(await hear(model), place);
        const { calls, runs } = provider;
        assert.deepEqual([calls.length, runs.counts.resumed, runs.counts.polled], [1, 1, 0], place);
        assert.deepEqual(runs.running, [], place);
        assert.match(lineOf(models, "continued_total") ?? "", /how="resume"\} 1$/, place);
        assert.match(lineOf(models, "calls_saved_total") ?? "", /how="resume"\} 1$/, place);
        assert.equal(lineOf(models, "lost_tokens_total"), undefined, "nothing was thrown away");
      }),
    );
  }
});

test("G1: eight cuts in a row, each in the middle of the next event", async (t) => {
  const cut: Break = { behind: 2, how: "utf8" };
  const { provider, model } = await play(t, {
    breaks: [cut],
    resumeBreaks: Array.from({ length: 7 }, () => cut),
  });
  assertExact(await hear(model), "eight cuts");
  assert.deepEqual([provider.calls.length, provider.runs.counts.resumed], [1, 8]);
});

test("a run that is too old to be streamed is looked at until it is complete, and the rest of it is exact", async (t) => {
  for (let behind = 1; behind < FRAMES.length - 1; behind++) {
    const { provider, model } = await play(t, { breaks: [{ behind, how: "rst" }], isTooOld: true, polls: 3 });
    assertExact(await hear(model), `behind ${behind}`);
    assert.deepEqual([provider.calls.length, provider.runs.counts.polled], [1, 3]);
    assert.deepEqual(provider.runs.running, []);
  }
});

test("a run that is not found just after its beginning is asked for again", async (t) => {
  const { provider, model } = await play(t, { breaks: [{ behind: 3, how: "rst" }], missing: 2 });
  assertExact(await hear(model), "found at last");
  assert.equal(provider.calls.length, 1);
  assert.equal(provider.runs.counts.resumed, 3);
});

test("G1: a whole answer that is not what was passed on is broken, not believed", async (t) => {
  const other = { ...SAID, text: "The wind is south by west." };
  const { data } = RESPONSES.frames(other).at(-1) ?? assert.fail();
  const lying = { place: "finish", data: { ...fieldsOf(data), sequence_number: FRAMES.length - 1 } } as const;
  for (const isTooOld of [false, true]) {
    const { provider, model } = await play(t, {
      breaks: [{ behind: FRAMES.length - 2, how: "rst" }],
      isTooOld,
      lastFrame: lying,
    });
    const failure = await hear(model);
    assert.ok(failure instanceof ModelFailure && failure.isPassing, "it is broken");
    assert.equal(provider.calls.length, 1);
  }
});

test("G2: the requests by which an answer is read on are the step's", async (t) => {
  const { provider, model } = await play(t, {
    breaks: [{ behind: 3, how: "rst" }],
    isTooOld: true,
    polls: 100,
  });
  let taken = 0;
  const requests = {
    take: async () => {
      if (taken === 4) throw new ModelFailure("unavailable", "enough");
      taken++;
    },
    mayWait: () => true,
  };
  await assert.rejects(async () => {
    for await (const _ of model.call(callOf({ requests }))) continue;
  }, ModelFailure);
  const { resumed, polled } = provider.runs.counts;
  assert.deepEqual([provider.calls.length, resumed, polled], [1, 1, 2]);
  await until(() => provider.runs.counts.cancelled === 1, "it is cancelled");
});

test("G4: a run that is stopped before it has a name is cancelled as soon as it has one", async (t) => {
  const begins = Promise.withResolvers<void>();
  const { provider, model } = await play(t, { begins: begins.promise });
  const stop = new AbortController();
  const heard = hear(model, stop.signal).catch((error: unknown) => error);
  await until(() => provider.calls.length === 1, "it is asked");
  stop.abort();
  await heard;
  assert.equal(provider.runs.counts.cancelled, 0);
  begins.resolve();
  await until(() => provider.runs.counts.cancelled === 1, "it is cancelled");
});

test("G4: a run that is stopped in the middle is cancelled at the provider", async (t) => {
  for (const behind of [1, 4]) {
    const { provider, model } = await play(t, { breaks: [{ behind, how: "silence" }] });
    const stop = new AbortController();
    const heard = hear(model, stop.signal).catch((error: unknown) => error);
    await until(() => provider.calls.length === 1, "it is asked");
    await delay(20);
    stop.abort();
    await heard;
    await until(() => provider.runs.counts.cancelled === 1, `cancelled behind ${behind}`);
    assert.equal(provider.calls.length, 1);
  }
});

test("G4: a run that cannot be cancelled is counted", async (t) => {
  const { provider, models, model } = await play(t, {
    breaks: [{ behind: 4, how: "silence" }],
    isUncancellable: true,
  });
  const stop = new AbortController();
  const heard = hear(model, stop.signal).catch((error: unknown) => error);
  await until(() => provider.calls.length === 1, "it is asked");
  await delay(20);
  stop.abort();
  await heard;
  await until(() => lineOf(models, "runs_left_total") !== undefined, "it is counted");
  assert.equal(provider.runs.running.length, 1);
});

test("G4: a run whose server was killed without a line is counted by the next one, whose step begins anew", async (t) => {
  const provider = await scriptedProvider(t, FLAVOURS.responses, {
    script: () => ({ text: SAID.text ?? "" }),
  });
  for (const resume of [true, false]) {
    const host = new TurnHost();
    const client = new KeepingClient(host);
    client.ask("Which way is the wind?", { model: "work/quill", options: { shownIsFinal: false } });
    const models = (): ProviderModels =>
      createModels({
        providers: { work: { ...provider.config, apiKeyEnv: "KEY", resume } },
        environment: { KEY: API_KEY },
      });
    const [killed, next] = [models(), models()];
    const { onEvent } = host;
    host.onEvent = (event, at) => {
      onEvent(event, at);
      if (host.runs === 1 && kindsOf([event]).includes("textDelta")) host.lose();
    };
    assert.equal(await host.run(createAgent({ models: killed })), false);
    await host.finish(createAgent({ models: next }));
    assert.ok(kindsOf(host.messages).includes("stepRestarted"));
    const counted = 'holdfast_provider_runs_left_total{provider="work"} 1';
    assert.deepEqual(
      [lineOf(killed, "runs_left_total"), lineOf(next, "runs_left_total")],
      [undefined, resume ? counted : undefined],
    );
  }
});

test("a server that closes cancels its runs as well: nothing would read them on", async (t) => {
  const { provider, model } = await play(t, { breaks: [{ behind: 4, how: "silence" }] });
  const stop = new AbortController();
  const heard = hear(model, stop.signal).catch((error: unknown) => error);
  await until(() => provider.calls.length === 1, "it is asked");
  await delay(20);
  stop.abort(new LetGo("closing"));
  await heard;
  await until(() => provider.runs.running.length === 0, "it is cancelled");
});

test("a provider that takes no runs gets the request without, and is remembered", async (t) => {
  const { provider, model } = await play(t, { isRefused: true });
  assertExact(await hear(model), "without background");
  assertExact(await hear(model), "the second time");
  assert.deepEqual(
    provider.calls.map(({ body }) => [body["background"], body["store"]]),
    [
      [true, true],
      [undefined, false],
      [undefined, false],
    ],
  );
});

test("without the word of the configuration nothing is stored at the provider", async (t) => {
  const provider = await scriptedProvider(t, FLAVOURS.responses, { breaks: [{ behind: 4, how: "rst" }] });
  const models = createModels({
    providers: { work: { ...provider.config, apiKeyEnv: "KEY" } },
    environment: { KEY: API_KEY },
  });
  assert.ok((await hear(models.resolve("work/quill"))) instanceof ModelFailure);
  const [{ body } = assert.fail()] = provider.calls;
  assert.deepEqual([body["background"], body["store"]], [undefined, false]);
});
