/**
 * G6 in the first moments of a stream: the model is called while chunk 0 and the gateway's rows are on their way to the disk, and the server is killed
 * before they are there. What is on the disk in between, case by case: `test/node/lost-beginnings.test.ts`.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { CHAT, MODEL } from "../agent/models/providers/formats.ts";
import { begin, frameText, ProviderServer } from "../agent/models/providers/server.ts";
import { until } from "../e2e/rig.ts";
import { bodyOf, user } from "../gateway/openai-user.ts";
import { Served } from "./served-line.ts";

/** A request before the others: it waits for what a server loads late, and for the row that says when its API key was used first. */
const FIRST = "Are you there?";
const SESSIONS = "gateway_sessions";

interface Stage {
  readonly served: Served;
  /** How often the provider was asked. */
  readonly calls: () => number;
  /** Lets the provider say its first answer. */
  readonly release: () => void;
}

/** A provider that never says the same twice. It calls `onHeard` in the moment in which it has the first request, and does not answer it before its release. */
async function stage(t: TestContext, onHeard: (served: Served) => void): Promise<Stage> {
  const released = Promise.withResolvers<void>();
  let calls = 0;
  const provider = await ProviderServer.start(t, async (response, { path, body }) => {
    if (!CHAT.path.test(path)) return void response.writeHead(404).end();
    const isFirst = JSON.stringify(body).includes(FIRST);
    const call = isFirst ? 0 : ++calls;
    if (call === 1) onHeard(served);
    if (!isFirst) await released.promise;
    begin(response);
    for (const { data } of CHAT.frames({ text: [`Answer ${call} `, "is this."] }))
      response.write(frameText(data));
    response.end();
  });
  const served = new Served(t, { type: "openai-compatible", baseURL: `${provider.origin}/v1` });
  await served.start();
  assert.ok((await served.ask(bodyOf([user(FIRST)], { model: `local/${MODEL}` })).reply()).isWhole);
  // The row of its session is written behind its answer.
  await until(() => served.rowsOf(SESSIONS).length === 1, "the first request has its row");
  return { calls: () => calls, served, release: released.resolve };
}

async function isContinued(t: TestContext, headers: Record<string, string>, holdsWrites: boolean) {
  const body = bodyOf([user("Say something")], { model: `local/${MODEL}` });
  const killed = Promise.withResolvers<void>();
  const { served, calls, release } = await stage(t, (one) => killed.resolve(one.signal("SIGKILL")));
  const before = served.rowsOf(SESSIONS);
  const letWrite = holdsWrites ? served.holdWrites() : () => undefined;
  const cut = served.ask(body, undefined, headers);
  await Promise.race([killed.promise, cut.reply()]);
  assert.equal(calls(), 1);
  await killed.promise;
  if (holdsWrites) assert.deepEqual(served.rowsOf(SESSIONS), before);
  letWrite();
  await cut.reply();
  await served.start();
  const again = served.ask(body, undefined, headers);
  release();
  const { text, isWhole } = await again.reply();
  assert.ok(isWhole);
  assert.equal(text, "Answer 1 is this.");
  assert.equal(calls(), 1);
}

test("G6: killed while nothing of a new stream is durable, the retry gets the call that is held", (t) =>
  isContinued(t, {}, true));

// The row of its key is read before it is answered, which a database that is busy does not allow.
test("G6: killed in the moment in which its provider hears of it, a request under an Idempotency-Key is not sent again", (t) =>
  isContinued(t, { "idempotency-key": "the-same" }, false));

test("G6: killed in the moment in which its client has the id of a response in the background, the response is completed by the call that is held", async (t) => {
  const heard = Promise.withResolvers<void>();
  const { served, calls, release } = await stage(t, () => heard.resolve());
  const ask = async (path: string, body?: object): Promise<unknown> => {
    const headers = { authorization: `Bearer ${served.apiKey}`, "content-type": "application/json" };
    const how = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
    return (await fetch(`${served.url}/v1/responses${path}`, { headers, ...how })).json();
  };
  const begun = await ask("", { model: `local/${MODEL}`, input: "Say something", background: true });
  assert.ok(typeof begun === "object" && begun !== null && "id" in begun);
  await heard.promise;
  await served.signal("SIGKILL");
  await served.start();
  release();
  let found: unknown;
  do found = await ask(`/${String(begun.id)}`);
  while (JSON.stringify(found).includes('"status":"in_progress"'));
  assert.match(JSON.stringify(found), /"Answer 1 is this\."/);
  assert.equal(calls(), 1);
});
