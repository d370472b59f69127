/** A server that stops in the middle of an answer, with its line: what is detached, what may still end, and what is cancelled. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { pino } from "pino";
import { serve, type RunningServer, type ServeOptions } from "../../src/node/index.ts";
import { serverLog } from "../../src/node/server-log.ts";
import type { OpenSession } from "../../src/gateway/index.ts";
import { given } from "../../src/protocol/given.ts";
import { SealedRows } from "../../src/gateway/sealed-rows.ts";
import { Stops } from "../../src/gateway/stops.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { openSqliteStore, type SqliteStore } from "../../src/store/index.ts";
import { until } from "../agent/models/line/line-rig.ts";
import { CHAT, MODEL } from "../agent/models/providers/formats.ts";
import { type Asked, begin, frameText, ProviderServer } from "../agent/models/providers/server.ts";
import { bodyOf, Exchange, user } from "../gateway/openai-user.ts";

const HOME_KEY = Buffer.alloc(32, 7);

interface Stage {
  readonly provider: ProviderServer;
  /** Lets the provider say the rest of its first answer. */
  readonly release: () => void;
  readonly options: ServeOptions;
}

/** A provider that says another word each time, and waits in the middle of its first answer. */
async function stage(t: TestContext): Promise<Stage> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let calls = 0;
  const provider = await ProviderServer.start(t, async (response, { path }) => {
    if (!CHAT.path.test(path)) return void response.writeHead(404).end();
    const call = ++calls;
    const frames = CHAT.frames({ text: [`Answer ${call} `, "begins ", "and ends."] });
    const at = frames.findIndex(({ place }) => place === "text") + 1;
    begin(response);
    for (const { data } of frames.slice(0, at)) response.write(frameText(data));
    if (call === 1) await promise;
    for (const { data } of frames.slice(at)) response.write(frameText(data));
    response.end();
  });
  const home = mkdtempSync(join(tmpdir(), "hf-ls-"));
  t.after(() => rmSync(home, { recursive: true, force: true }));
  const env = {
    HOLDFAST_HOME_KEY: HOME_KEY.toString("base64url"),
    XDG_RUNTIME_DIR: home,
    LOCAL_KEY: "of-the-provider",
  };
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
  return { provider, release: resolve, options };
}

function ask({ url, apiKey = "" }: RunningServer): Exchange {
  const body = bodyOf([user("Say something")], { model: `local/${MODEL}` });
  return new Exchange(url, body, { apiKey, headers: { "idempotency-key": "the-same" } });
}

test("G6: a server that closes lets go of its call, and the next one continues the same answer, with another key of the provider", async (t) => {
  const { provider, release, options } = await stage(t);
  const first = await serve(options);
  const cut = ask(first);
  await cut.until("Answer 1");
  await first.close();
  assert.ok(!(await cut.reply()).isWhole);
  const saved: string[] = [];
  const { machine } = options;
  assert.ok(machine !== undefined);
  const rotated = { ...machine, env: { ...machine.env, LOCAL_KEY: "the-next-one" } };
  const second = await serve({ ...options, machine: rotated, onSaved: (how) => saved.push(how) });
  t.after(() => second.close());
  const again = ask(second);
  await again.until("Answer 1");
  release();
  assert.equal((await again.reply()).text, "Answer 1 begins and ends.");
  assert.equal(callsOf(provider).length, 1);
  await until(async () => (await metricsOf(second)).includes("holdfast_line_reattached_total 1\n"));
  // What was read again was not asked again.
  assert.doesNotMatch(await metricsOf(second), /holdfast_provider_requests_total\{/);
  // Its step is on disk, so nothing of it is held.
  await until(async () => (await metricsOf(second)).includes("holdfast_line_calls 0\n"));
  const { streamId } = await again.reply();
  const events = await fetch(`${second.url}/v1/streams/${streamId}/events`, {
    headers: { authorization: `Bearer ${second.apiKey}` },
  });
  assert.match(await events.text(), /and ends\./);
  assert.deepEqual(saved.toSorted(), ["attached", "held", "resumed"]);
  // The held call left with the key of its time; what is asked now has the new one.
  const fresh = new Exchange(
    second.url,
    bodyOf([user("Say something else")], { model: `local/${MODEL}` }),
    given({ apiKey: second.apiKey }),
  );
  assert.equal((await fresh.reply()).text, "Answer 2 begins and ends.");
  assert.deepEqual(
    callsOf(provider).map(({ headers }) => headers.authorization),
    ["Bearer of-the-provider", "Bearer the-next-one"],
  );
});

test("G7: a server that starts finishes the answer whose call is held, before any client asks for it", async (t) => {
  const { provider, release, options } = await stage(t);
  const first = await serve(options);
  const cut = ask(first);
  await cut.until("Answer 1");
  await first.close();
  const lines: string[] = [];
  const logger = pino({ level: "info" }, { write: (line) => lines.push(line) });
  const second = await serve({ ...options, logger });
  t.after(() => second.close());
  await until(async () => (await metricsOf(second)).includes("holdfast_line_reattached_total 1\n"));
  release();
  await until(() => second.sessions().length === 0);
  const reply = await ask(second).reply();
  assert.equal(reply.text, "Answer 1 begins and ends.");
  assert.ok(reply.isWhole);
  // Its first reader's line in the log says that the call was read again.
  const read = (): string | undefined => lines.find((line) => line.includes('"answer":"replayed"'));
  await until(() => read() !== undefined);
  assert.match(read() ?? "", /"answer":"replayed","continued":"replay"/);
  assert.equal(callsOf(provider).length, 1);
});

test("G7: without its call an answer that was cut off sleeps until it is wanted", async (t) => {
  const { provider, options } = await stage(t);
  const first = await serve(options);
  const cut = ask(first);
  await cut.until("Answer 1");
  const closing = first.close({ drainMs: 60_000 });
  await first.cancelCalls();
  await closing;
  const second = await serve(options);
  t.after(() => second.close());
  assert.deepEqual(
    second.sessions().map(({ state }) => state),
    ["sleeping"],
  );
  assert.equal(callsOf(provider).length, 1);
});

/** A call that is not cancelled would be waited for until its grace period is over. */
const LIMITED = { timeout: 60_000 };

/** What a server that was killed in between would have left: `logged` is done to the store that no server has open. */
async function stopped(
  t: TestContext,
  logged: (store: SqliteStore, session: OpenSession) => Promise<unknown>,
): Promise<void> {
  const { provider, options } = await stage(t);
  const first = await serve(options);
  await ask(first).until("Answer 1");
  const [session] = first.sessions();
  assert.ok(session !== undefined);
  await first.close();
  const store = await openSqliteStore(options.data ?? "", { now: Date.now });
  await logged(store, session);
  await store.close();
  const second = await serve(options);
  t.after(() => second.close());
  await callsOf(provider)[0]?.gone;
  await until(async () => (await metricsOf(second)).includes("holdfast_line_calls 0\n"));
  assert.equal(callsOf(provider).length, 1);
}

test(
  "G4: an abort that was logged before a restart ends the held call at once, also of a stream without a session",
  LIMITED,
  (t) =>
    stopped(t, async ({ streams, tables }, { principal, answer }) => {
      const table = "gateway_sessions";
      const rows = await tables.list(table, "", { after: undefined, countMax: 10 });
      await tables.batch(rows.map(({ key }) => ({ kind: "delete", table, key })));
      const name = { principal, idempotencyKey: answer.streamId };
      const claimed = await streams.claim(name, { hostId: "this test", leaseMs: 1 });
      assert.ok(claimed.kind === "live", claimed.kind);
      const { hostEpoch, nextSeqno, eventHead } = claimed.state;
      const expected = { hostEpoch, nextSeqno, eventHead };
      const nothing = { chunks: undefined, events: undefined };
      await streams.commit({ name, expected, change: { aborted: true }, ...nothing });
    }),
);

test("G4: a stop that no server had the time to carry out ends the held call at once", LIMITED, (t) =>
  stopped(t, async ({ tables }, { responses }) => {
    const sealer = nodeSealing().homeSealer(HOME_KEY);
    const rows = new SealedRows({
      tables,
      sealer,
      onDamaged: () => undefined,
      environment: { after: () => assert.fail() },
    });
    for (const name of responses) await new Stops(rows, 60_000).remember(name);
  }),
);

test("a server that drains is not ready, begins no answer, and lets the one under way come to its end", async (t) => {
  const { provider, release, options } = await stage(t);
  const server = await serve(options);
  const under = ask(server);
  await under.until("Answer 1");
  const closing = server.close({ drainMs: 60_000 });
  const ready = await fetch(`${server.url}/ready`);
  assert.equal(ready.status, 503);
  const body = bodyOf([user("And something else")], { model: `local/${MODEL}` });
  const refused = await new Exchange(server.url, body, { apiKey: server.apiKey ?? "" }).reply();
  assert.equal(refused.status, 503);
  release();
  const reply = await under.reply();
  assert.equal(reply.text, "Answer 1 begins and ends.");
  assert.ok(reply.isWhole);
  await closing;
  assert.equal(callsOf(provider).length, 1);
});

test("G4: a second signal cancels the calls at their provider", async (t) => {
  const { provider, options } = await stage(t);
  const server = await serve(options);
  const under = ask(server);
  await under.until("Answer 1");
  const closing = server.close({ drainMs: 60_000 });
  await server.cancelCalls();
  await callsOf(provider)[0]?.gone;
  await closing;
});

async function metricsOf({ url }: RunningServer): Promise<string> {
  return (await fetch(`${url}/metrics`)).text();
}

function callsOf({ asked }: ProviderServer): readonly Asked[] {
  return asked.filter(({ path }) => CHAT.path.test(path));
}
