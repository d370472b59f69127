/**
 * Responses that are lost behind their last byte, and equal requests that want another answer: what is paid twice, and what is never
 * told twice.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { connect as connectHttp2 } from "node:http2";
import { test } from "node:test";
import { promisify } from "node:util";
import { ModelFailure } from "../../src/agent/index.ts";
import { until } from "../e2e/rig.ts";
import { ALICE_KEY } from "../server/http/rig.ts";
import { bodyOf, CHAT, Exchange, result, said, user } from "./openai-user.ts";
import { lastTold, PacedModel } from "./paced-model.ts";
import { askRaw, askRaw2, ENDS, textOf } from "./raw-client.ts";
import { World } from "./world.ts";

const TIMES = 20;
/** Of each kind; what they come to is told. */
const CUTS = 8;
const RETRY = { "x-stainless-retry-count": "1" };
const AUTH = { authorization: `Bearer ${ALICE_KEY}`, "content-type": "application/json" };

const counting = (): PacedModel => new PacedModel((_, count) => [`Call ${count}.`]);
const bodyFor = (at: number, stream: boolean): string => bodyOf([user(`Question ${at}`)], { stream });
const HELLO = bodyOf([user("Hello")], { stream: false });

for (const [version, ask] of [
  ["1.1", askRaw],
  ["2", askRaw2],
] as const) {
  for (const stream of [false, true]) {
    const kind = stream ? "streamed" : "in one piece";
    test(`over HTTP/${version} a response ${kind} that a reset took behind its last byte is paid once`, async (t) => {
      const world = await World.begin(t, counting());
      const paidTwice = { FIN: 0, RST: 0 };
      for (const end of ENDS) {
        for (let at = 0; at < CUTS; at++) {
          const body = bodyFor(at, stream);
          const before = world.model.calls.length;
          const lost = await ask(world.port, body);
          await lost.hangUp(end);
          const again = await ask(world.port, body);
          const paid = world.model.calls.length - before;
          assert.equal(again.text === lost.text, paid === 1, "what is paid is told");
          paidTwice[end] += paid - 1;
          await again.hangUp("FIN");
        }
      }
      t.diagnostic(`paid twice of ${CUTS}: ${paidTwice.RST} cut by RST, ${paidTwice.FIN} cut by FIN`);
      assert.deepEqual(paidTwice, { FIN: CUTS, RST: 0 });
    });

    test(`over HTTP/${version} a response ${kind} that was lost is paid once when its client counts its tries`, async (t) => {
      const world = await World.begin(t, counting());
      for (const end of ENDS) {
        const body = bodyFor(0, stream);
        const before = world.model.calls.length;
        const lost = await ask(world.port, body);
        await lost.hangUp(end);
        const again = await ask(world.port, body, { headers: RETRY });
        assert.equal(again.text, lost.text, end);
        assert.equal(world.model.calls.length - before, 1);
        await again.hangUp("FIN");
        const third = await ask(world.port, body, { headers: RETRY });
        assert.notEqual(third.text, lost.text, "it goes to one retry");
        // The next round begins with nothing that could be meant.
        world.nowMs += 120_000;
      }
    });
  }
}

test("a connection that its server has ended is watched as well: a reset behind `connection: close` is a loss", async (t) => {
  const world = await World.begin(t, counting());
  const lost = await askRaw(world.port, HELLO, { connection: "close" });
  await lost.hangUp("RST");
  assert.equal((await askRaw(world.port, HELLO, { connection: "close" })).text, lost.text);
  assert.equal(world.model.calls.length, 1);
});

test("a reset says nothing of a response behind which its client asked again", async (t) => {
  const world = await World.begin(t, counting());
  const { socket } = await askRaw(world.port, HELLO);
  const second = await askRaw(world.port, HELLO, { socket });
  await second.hangUp("RST");
  const texts = [await askRaw(world.port, HELLO), await askRaw(world.port, HELLO)].map(({ text }) => text);
  assert.deepEqual(texts, [second.text, "Call 3."]);
});

test("in a session that its client names, the same again is a retry: closed in good order, over a kill, and of that session alone", async (t) => {
  const world = await World.begin(t, counting());
  for (const name of ["x-claude-code-session-id", "thread-id"]) {
    const [headers, others] = [{ [name]: "one" }, { [name]: "other" }];
    const before = world.model.calls.length;
    const lost = await askRaw(world.port, HELLO, { headers });
    await lost.hangUp("FIN");
    if (name === "thread-id") await world.restart();
    const other = await askRaw(world.port, HELLO, { headers: others });
    assert.notEqual(other.text, lost.text, "another session asks its own question");
    const again = await askRaw(world.port, HELLO, { headers });
    assert.equal(again.text, lost.text);
    assert.equal(world.model.calls.length - before, 2);
    const next = await askRaw(world.port, HELLO, { headers, socket: again.socket });
    assert.notEqual(next.text, lost.text, "it has read the answer: it wants another one");
  }
  const headers = { "thread-id": "at once" };
  // Neither is answered before both have been asked: a question behind an answer that came would be a retry.
  const [asked, isAskedTwice] = [world.model.calls.length, Promise.withResolvers<void>()];
  world.model.script = (_, count) => {
    if (count === asked + 2) isAskedTwice.resolve();
    return [() => isAskedTwice.promise, `Call ${count}.`];
  };
  const texts = await Promise.all([1, 2].map(() => askRaw(world.port, HELLO, { headers })));
  assert.equal(new Set(texts.map(({ text }) => text)).size, 2, "two at once are two questions");
});

test("a response that was lost longer ago than the grace period is another generation", async (t) => {
  const world = await World.begin(t, counting());
  await loseOne(world);
  world.nowMs += 61_000;
  assert.equal((await askRaw(world.port, HELLO, { headers: RETRY })).text, "Call 2.");
});

test("a response that a reset took is paid once, also when the gateway was killed before its retry", async (t) => {
  const world = await World.begin(t, counting());
  const lost = await loseOne(world);
  await world.restart();
  assert.equal((await askRaw(world.port, HELLO)).text, lost);
  assert.equal((await askRaw(world.port, HELLO)).text, "Call 2.");
});

test("`stream` may differ in a retry, and nothing else", async (t) => {
  const world = await World.begin(t, counting());
  const streamed = bodyOf([user("Hello")], { stream_options: { include_usage: true } });
  const lost = await askRaw(world.port, streamed);
  await lost.hangUp("RST");
  assert.equal(
    (await askRaw(world.port, bodyOf([user("Hello")], { stream: undefined, temperature: 0 }))).text,
    "Call 2.",
  );
  const again = await askRaw(world.port, HELLO);
  assert.equal(again.text, lost.text);
  const headers = { "idempotency-key": "either way" };
  const [one, other] = [
    await askRaw(world.port, HELLO, { headers }),
    await askRaw(world.port, streamed, { headers }),
  ];
  assert.equal(one.text, other.text);
});

test("a count of tries behind a refusal says nothing of a lost response", async (t) => {
  const world = await World.begin(t, counting());
  const whole = await askRaw(world.port, HELLO);
  await whole.hangUp("FIN");
  world.model.script = () => {
    throw new ModelFailure("unavailable", "the provider is out of order");
  };
  const failed = await new Exchange(world.url, HELLO).reply();
  assert.ok(failed.status >= 500);
  world.model.script = (_, count) => [`Call ${count}.`];
  assert.notEqual((await askRaw(world.port, HELLO, { headers: RETRY })).text, whole.text);
});

test("a count of tries does not choose among several answers that arrived", async (t) => {
  const world = await World.begin(t, counting());
  for (let at = 0; at < 2; at++) await (await askRaw(world.port, HELLO)).hangUp("FIN");
  assert.equal((await askRaw(world.port, HELLO, { headers: RETRY })).text, "Call 3.");
});

test("an answer that was read to its end at /events is not given to an equal request", async (t) => {
  const gate = Promise.withResolvers<void>();
  const world = await World.begin(
    t,
    new PacedModel((_, count) => [`Call ${count} `, () => gate.promise, "ends."]),
  );
  const broken = new Exchange(world.url, HELLO_STREAMED);
  await broken.until('"1 "');
  broken.hangUp();
  const { streamId, ids } = await broken.reply();
  await until(() => world.gateway.readers === 0, "the hang-up is noticed");
  const path = `/v1/streams/${streamId}/events`;
  const rest = new Exchange(world.url, undefined, {
    path,
    method: "GET",
    headers: { "last-event-id": ids.at(-1) ?? "" },
  });
  await rest.begun();
  gate.resolve();
  assert.ok((await rest.reply()).isWhole);
  assert.equal((await new Exchange(world.url, HELLO_STREAMED).reply()).text, "Call 2 ends.");
});
const HELLO_STREAMED = bodyOf([user("Hello")]);

test("an answer that a kill cut off and its client read to its end at /events is not given to an equal request", async (t) => {
  const model = new PacedModel((_, count) =>
    count === 1 ? ["Half ", () => new Promise(() => undefined)] : [`Call ${count}.`],
  );
  const world = await World.begin(t, model);
  const cut = new Exchange(world.url, HELLO_STREAMED);
  await cut.until("Half");
  await world.restart();
  const { streamId } = await cut.reply();
  const path = `/v1/streams/${streamId}/events`;
  const told = await new Exchange(world.url, undefined, { path, method: "GET" }).reply();
  assert.deepEqual([told.text, told.isWhole], ["Call 2.", true]);
  assert.equal((await new Exchange(world.url, HELLO_STREAMED).reply()).text, "Call 3.");
});

const run = promisify(execFile);
const hasCurl = await run("curl", ["--version"]).then(
  () => true,
  () => false,
);

const WAYS: Readonly<Record<string, (world: World) => Promise<readonly string[]>>> = {
  "curl over HTTP/1.1": (world) => oneByOne(() => curl(world, "--http1.1")),
  "curl over HTTP/2": (world) => oneByOne(() => curl(world, "--http2-prior-knowledge")),
  fetch: (world) =>
    oneByOne(async () => {
      const response = await fetch(`http://127.0.0.1:${world.port}${CHAT}`, {
        method: "POST",
        headers: AUTH,
        body: HELLO,
      });
      return textOf(await response.text());
    }),
  "one HTTP/2 connection": async (world) => {
    const session = connectHttp2(`http://127.0.0.1:${world.port}`);
    try {
      return await oneByOne(() => askOn(session, HELLO));
    } finally {
      session.destroy();
    }
  },
  "HTTP/2 connections that end at once": (world) =>
    oneByOne(async () => {
      const session = connectHttp2(`http://127.0.0.1:${world.port}`);
      const text = await askOn(session, HELLO);
      session.destroy();
      return text;
    }),
};

for (const [way, ask] of Object.entries(WAYS)) {
  const skip = way.startsWith("curl") && !hasCurl;
  test(`equal requests one after the other get as many answers: ${way}`, { skip }, async (t) => {
    const world = await World.begin(t, counting());
    const texts = await ask(world);
    assert.equal(new Set(texts).size, TIMES, texts.join(" "));
    assert.equal(world.model.calls.length, TIMES);
  });
}

for (const [version, ask] of [
  ["1.1", askRaw],
  ["2", askRaw2],
] as const) {
  for (const headers of [{}, RETRY]) {
    const how = headers === RETRY ? "with a count of tries" : "without more";
    test(`over HTTP/${version} equal requests at once, two of them reset and retried ${how}: no answer is told to two that got one`, async (t) => {
      const gate = Promise.withResolvers<void>();
      const world = await World.begin(
        t,
        new PacedModel((_, count) => [() => gate.promise, `Call ${count}.`]),
      );
      const all = Array.from({ length: TIMES }, () => ask(world.port, HELLO));
      await until(() => world.model.calls.length === TIMES, "all are asked");
      gate.resolve();
      const [one, two, ...others] = await Promise.all(all);
      assert.ok(one !== undefined && two !== undefined);
      await Promise.all([one.hangUp("RST"), two.hangUp("RST")]);
      await Promise.all(others.slice(0, TIMES / 2).map((other) => other.hangUp("FIN")));
      const retried = await Promise.all([1, 2].map(() => ask(world.port, HELLO, { headers })));
      const texts = [...others, ...retried].map(({ text }) => text);
      assert.equal(new Set(texts).size, TIMES, texts.join(" "));
      assert.equal(world.model.calls.length, TIMES, "and none is paid twice");
    });
  }
}

test("equal tool results at once are one answer, unless they come under another Idempotency-Key", async (t) => {
  const gate = Promise.withResolvers<void>();
  const model = new PacedModel((call, count) =>
    lastTold(call).startsWith("Look")
      ? [{ tool: "look", args: {} }]
      : [`Call${count} `, () => gate.promise, "ends."],
  );
  const world = await World.begin(t, model);
  const asked = await new Exchange(world.url, bodyOf([user("Look")])).reply();
  const [call] = asked.calls;
  assert.ok(call !== undefined);
  const results = bodyOf([user("Look"), said(asked), result(call.id, "seen")]);
  const same = [1, 2, 3].map(() => new Exchange(world.url, results));
  const areTold = (): boolean => same.every((one) => one.hasCome("Call2"));
  await until(() => areTold() || model.calls.length > 2, "they are answered");
  assert.equal(model.calls.length, 2);
  const headers = { "idempotency-key": "another" };
  const other = new Exchange(world.url, results, { headers });
  await other.until("Call3");
  gate.resolve();
  for (const one of same) {
    const { text, streamId } = await one.reply();
    assert.deepEqual([text, streamId], ["Call2 ends.", asked.streamId]);
  }
  const { text, streamId } = await other.reply();
  assert.equal(text, "Call3 ends.");
  assert.notEqual(streamId, asked.streamId);
  assert.equal(model.calls.length, 3);
});

/** Its answer; that it was flushed, and then lost, is on the disk. */
async function loseOne({ life, port }: World): Promise<string> {
  let [asked, told] = [life.writes, 0];
  life.onWrite = (_, given) => {
    asked++;
    if (JSON.stringify(given).includes("gateway_responses")) told++;
  };
  const lost = await askRaw(port, HELLO);
  await until(() => told === 2, "it is flushed");
  await lost.hangUp("RST");
  await until(() => told === 3 && life.writes === asked, "it is lost, and written down");
  return lost.text;
}

async function oneByOne(ask: () => Promise<string>): Promise<readonly string[]> {
  const texts: string[] = [];
  for (let at = 0; at < TIMES; at++) texts.push(await ask());
  return texts;
}

async function curl({ port }: World, version: string): Promise<string> {
  const headers = Object.entries(AUTH).flatMap(([name, value]) => ["-H", `${name}: ${value}`]);
  const { stdout } = await run("curl", [
    "-s",
    version,
    ...headers,
    "-d",
    HELLO,
    `http://127.0.0.1:${port}${CHAT}`,
  ]);
  return textOf(stdout);
}

async function askOn(session: ReturnType<typeof connectHttp2>, body: string): Promise<string> {
  const stream = session.request({ ...AUTH, ":method": "POST", ":path": CHAT });
  stream.end(body);
  let read = "";
  for await (const piece of stream.setEncoding("utf8")) read += String(piece);
  return textOf(read);
}
