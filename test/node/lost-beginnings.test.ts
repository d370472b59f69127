/**
 * G6: what a kill in the first moments of a stream leaves on the disk, case by case, while the line holds the call: the store has the stream or does not, the
 * tables have the gateway's rows or do not. A server is closed in the middle of its answers, and what a killed one would not have written is taken from the disk.
 */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import type { OpenSession } from "../../src/gateway/index.ts";
import { serve, type RunningServer, type ServeOptions } from "../../src/node/index.ts";
import { serverLog } from "../../src/node/server-log.ts";
import { openSqliteStore, type SqliteStore } from "../../src/store/index.ts";
import { until } from "../agent/models/line/line-rig.ts";
import { CHAT, MODEL } from "../agent/models/providers/formats.ts";
import { begin, frameText, ProviderServer } from "../agent/models/providers/server.ts";
import { bodyOf, Exchange, user } from "../gateway/openai-user.ts";

interface Stage {
  readonly options: ServeOptions;
  readonly provider: ProviderServer;
  /** How often the provider was asked for an answer. */
  readonly calls: () => number;
  readonly release: () => void;
}

/** A provider that says another word each time, and waits behind it until it is released. */
async function stage(t: TestContext): Promise<Stage> {
  const released = Promise.withResolvers<void>();
  let calls = 0;
  const provider = await ProviderServer.start(t, async (response, { path }) => {
    if (!CHAT.path.test(path)) return void response.writeHead(404).end();
    const frames = CHAT.frames({ text: [`Answer ${++calls} `, "is whole."] });
    const at = frames.findIndex(({ place }) => place === "text") + 1;
    begin(response);
    for (const { data } of frames.slice(0, at)) response.write(frameText(data));
    await released.promise;
    for (const { data } of frames.slice(at)) response.write(frameText(data));
    response.end();
  });
  const home = mkdtempSync(join(tmpdir(), "hf-lb-"));
  t.after(() => rmSync(home, { recursive: true, force: true }));
  const HOLDFAST_HOME_KEY = Buffer.alloc(32, 7).toString("base64url");
  const env = { HOLDFAST_HOME_KEY, XDG_RUNTIME_DIR: home, LOCAL_KEY: "of-the-provider" };
  const local = {
    type: "openai-compatible",
    baseURL: `${provider.origin}/v1`,
    apiKeyEnv: "LOCAL_KEY",
  } as const;
  const options: ServeOptions = {
    data: join(home, "data"),
    port: 0,
    line: true,
    providers: { local },
    models: { offered: [`local/${MODEL}`] },
    logger: serverLog("silent"),
    onNotice: () => undefined,
    machine: { env, home, platform: process.platform, now: Date.now },
  };
  return { options, provider, calls: () => calls, release: released.resolve };
}

function ask({ url, apiKey = "" }: RunningServer, words: string, key?: string): Exchange {
  const body = bodyOf([user(words)], { model: `local/${MODEL}` });
  return new Exchange(url, body, { apiKey, headers: key === undefined ? {} : { "idempotency-key": key } });
}

/** One under a key, one without, and two that are equal. */
function askAll(server: RunningServer): readonly Exchange[] {
  return [
    ask(server, "Say something", "of-this-one"),
    ask(server, "Say something else"),
    ask(server, "Say the same"),
    ask(server, "Say the same"),
  ];
}

async function removeStreams({ streams }: SqliteStore, sessions: readonly OpenSession[]): Promise<void> {
  for (const { principal, answer } of sessions) {
    const name = { principal, idempotencyKey: answer.streamId };
    const claimed = await streams.claim(name, { hostId: "this test", leaseMs: 1 });
    assert.ok(claimed.kind === "live", claimed.kind);
    await streams.expire(name, claimed.state.hostEpoch);
  }
  await streams.forgetGone(Date.now() + 60_000);
}

async function removeRows({ tables }: SqliteStore): Promise<void> {
  for (const table of ["gateway_sessions", "gateway_responses"]) {
    const rows = await tables.list(table, "", { after: undefined, countMax: 100 });
    assert.ok(rows.length > 0);
    await tables.batch(rows.map(({ key }) => ({ kind: "delete", table, key })));
  }
}

/** Closes a server in the middle of its answers, and takes from the disk what was not durable. */
async function cutOff(
  { options }: Stage,
  asked: (server: RunningServer) => readonly Exchange[],
  lose: (store: SqliteStore, sessions: readonly OpenSession[]) => Promise<void>,
): Promise<RunningServer> {
  const first = await serve(options);
  const cut = asked(first);
  await Promise.all(cut.map((exchange) => exchange.until("Answer")));
  const sessions = first.sessions();
  await first.close();
  await Promise.all(cut.map((exchange) => exchange.reply()));
  const store = await openSqliteStore(options.data ?? "", { now: Date.now });
  await lose(store, sessions);
  await store.close();
  return serve(options);
}

const LOSSES = {
  "nothing of the beginning": async (store: SqliteStore, sessions: readonly OpenSession[]) => {
    await removeStreams(store, sessions);
    await removeRows(store);
  },
  "only the stream": (store: SqliteStore) => removeRows(store),
  "only what the gateway keeps of it": removeStreams,
};

for (const [durable, lose] of Object.entries(LOSSES))
  test(`G6: when ${durable} is durable, retries get the calls that are held, and equal requests each their own`, async (t) => {
    const at = await stage(t);
    const second = await cutOff(at, askAll, lose);
    t.after(() => second.close());
    const again = askAll(second);
    at.release();
    const replies = await Promise.all(again.map((exchange) => exchange.reply()));
    const all = again.map((_, number) => `Answer ${number + 1} is whole.`);
    assert.deepEqual(replies.map(({ text }) => text).toSorted(), all);
    assert.equal(at.calls(), again.length);
    // Whole, so that the next equal request is a new one.
    assert.ok(replies.every(({ isWhole }) => isWhole));
    const sample = await ask(second, "Say something else").reply();
    assert.equal(sample.text, "Answer 5 is whole.");
    assert.equal((await ask(second, "Say something", "of-this-one").reply()).text, replies[0]?.text);
  });

test("G6: another body does not get the call that is held, nor does another Idempotency-Key or another request of the same body under one", async (t) => {
  const at = await stage(t);
  const one = (server: RunningServer): readonly Exchange[] => [ask(server, "Say something", "of-this-one")];
  const second = await cutOff(at, one, LOSSES["nothing of the beginning"]);
  t.after(() => second.close());
  at.release();
  const others = [
    ask(second, "Say something else", "of-this-one"),
    ask(second, "Say something", "of-another"),
    ask(second, "Say something"),
  ];
  const replies = await Promise.all(others.map((exchange) => exchange.reply()));
  assert.ok(replies.every(({ text }) => text !== "Answer 1 is whole."));
  assert.equal(at.calls(), 4);
});

test(
  "G4: a stop by its Idempotency-Key ends the call of a request that a kill has lost",
  { timeout: 60_000 },
  async (t) => {
    const at = await stage(t);
    const one = (server: RunningServer): readonly Exchange[] => [ask(server, "Say something", "of-this-one")];
    const second = await cutOff(at, one, LOSSES["nothing of the beginning"]);
    t.after(() => second.close());
    const { url, apiKey = "" } = second;
    const stop = await fetch(`${url}/v1/chat/completions`, {
      method: "DELETE",
      headers: { authorization: `Bearer ${apiKey}`, "idempotency-key": "of-this-one" },
    });
    assert.equal(stop.status, 200, await stop.text());
    await at.provider.asked.findLast(({ path }) => CHAT.path.test(path))?.gone;
    await until(async () =>
      (await (await fetch(`${url}/metrics`)).text()).includes("holdfast_line_calls 0\n"),
    );
    assert.equal(at.calls(), 1);
  },
);
