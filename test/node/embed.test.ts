/** A server within another one: plain `node:http`, Express, Hono and a route of Next, each under a path, with everything durable. */
import assert from "node:assert/strict";
import { createServer, type Server } from "node:http";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import express from "express";
import { Hono } from "hono";
import OpenAI from "openai";
import { holdfast as lasting } from "../../src/fetch/index.ts";
import { connect, type RunningServer, serve, type ServeOptions, tool } from "../../src/node/index.ts";
import { serverLog } from "../../src/node/server-log.ts";
import { closed, honoServer, listening } from "../transport/mounted-rig.ts";
import { nextServer } from "../transport/next-server.ts";

const HOME_KEY: Uint8Array = new Uint8Array(32).fill(7);

type Host = (app: RunningServer) => Server;

/** Each has a page of its own beside ours. */
const HOSTS: Readonly<Record<string, Host>> = {
  "node:http": (app) =>
    createServer((request, response) => {
      if (request.url?.startsWith("/ai/") === true) app.listener(request, response);
      else response.end("my own page");
    }),
  Express: (app) => {
    const own = express();
    own.use("/ai", app.listener);
    own.get("/", (_, response) => void response.send("my own page"));
    return createServer(own);
  },
  Hono: (app) => {
    const own = new Hono();
    own.get("/", (context) => context.text("my own page"));
    own.all("/ai/*", (context) => app.fetch(context.req.raw, context.env));
    return honoServer(own);
  },
  // `app/ai/[...path]/route.ts`, as docs/EMBED.md has it, beside a page of the app.
  "a route of Next": (app) =>
    nextServer((request) =>
      new URL(request.url).pathname.startsWith("/ai/") ? app.fetch(request) : new Response("my own page"),
    ),
};

function optionsIn(t: TestContext): ServeOptions & { readonly data: string } {
  const home = mkdtempSync(join(tmpdir(), "holdfast-embed-"));
  t.after(() => rmSync(home, { recursive: true, force: true }));
  const env = { HOLDFAST_HOME_KEY: Buffer.from(HOME_KEY).toString("base64url") };
  const machine = { env, home, platform: process.platform, now: Date.now };
  return { data: join(home, "data"), port: false, prefix: "/ai", machine, logger: serverLog("silent") };
}

async function start(options: ServeOptions, host: Host) {
  const app = await serve(options);
  const server = host(app);
  const root = `http://127.0.0.1:${await listening(server)}`;
  const stop = async (): Promise<void> => {
    await app.close();
    await closed(server);
  };
  return { app, root, stop, apiKey: app.apiKey ?? "" };
}

type Started = Awaited<ReturnType<typeof start>>;

function ask(
  { root, apiKey }: Started,
  content: string,
  key: string,
  more: RequestInit = {},
): Promise<Response> {
  return fetch(`${root}/ai/v1/chat/completions`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${apiKey}`,
      "content-type": "application/json",
      "idempotency-key": key,
    },
    body: JSON.stringify({ model: "rehearsal", messages: [{ role: "user", content }], stream: true }),
    ...more,
  });
}

for (const [name, host] of Object.entries(HOSTS)) {
  test(`mounted into ${name}: an SDK streams, a cut answer is read on and not generated again, a restart keeps it, a program has its tools`, async (t) => {
    const options = optionsIn(t);
    const first = await start(options, host);
    t.after(first.stop);
    assert.equal(first.app.url, "");
    assert.equal(await (await fetch(`${first.root}/`)).text(), "my own page");
    assert.equal(
      (await fetch(`${first.root}/ai/v1/models`)).status,
      401,
      "no one is let in without an API key",
    );
    assert.equal((await fetch(`${first.root}/ai/metrics`)).status, 401);

    const baseURL = `${first.root}/ai/v1`;
    const openai = new OpenAI({ baseURL, apiKey: first.apiKey, fetch: lasting({ baseURL }) });
    const messages = [{ role: "user" as const, content: "count to 3" }];
    let counted = "";
    const stream = await openai.chat.completions.create({ model: "rehearsal", messages, stream: true });
    for await (const { choices } of stream) counted += choices[0]?.delta.content ?? "";
    assert.equal(counted, "1 2 3 ");

    const cut = await ask(first, "count to 20 every 10 ms", "cut");
    const reader = cut.body?.getReader();
    await reader?.read();
    await reader?.cancel();
    const again = await ask(first, "count to 20 every 10 ms", "cut");
    assert.notEqual(again.headers.get("x-holdfast-answer"), "new");
    assert.match(await again.text(), /\b20 "/);

    const { root, apiKey } = first;
    const weather = tool("Weather", {}, () => "sunny");
    const place = { apiKey, transport: "fetch", directory: options.data, homeKey: HOME_KEY } as const;
    const program = await connect(`${root}/ai`, { ...place, tools: { weather } });
    const turn = await program.conversation("trip").send("call weather {}");
    assert.match((await turn.ended).text, /"done": sunny/);
    await program.close();
    await first.stop();

    const second = await start(options, host);
    t.after(second.stop);
    assert.equal(second.apiKey, first.apiKey);
    const kept = await ask(second, "count to 20 every 10 ms", "cut");
    assert.equal(kept.headers.get("x-holdfast-answer"), "replayed");
    await kept.text();
  });
}

test("a body that a parser has read before is refused in words that say what to do", async (t) => {
  const app = await start(optionsIn(t), ({ listener }) => {
    const own = express();
    own.use(express.json());
    own.use("/ai", listener);
    return createServer(own);
  });
  t.after(app.stop);
  const refused = await ask(app, "hello", "parsed");
  assert.equal(refused.status, 500);
  assert.match(await refused.text(), /mount Holdfast in front of body parsers such as express\.json\(\)/);
});

test("E7: another name than loopback's is answered only when it is allowed", async (t) => {
  const app = await serve({ ...optionsIn(t), allowedHosts: ["app.example.com"] });
  t.after(() => app.close());
  const headers = { authorization: `Bearer ${app.apiKey}` };
  const statusUnder = async (host: string): Promise<number> => {
    const response = await app.fetch(new Request(`https://${host}/ai/v1/models`, { headers }));
    await response.text();
    return response.status;
  };
  assert.equal(await statusUnder("app.example.com"), 200);
  assert.equal(await statusUnder("evil.example.com"), 403);
});

test("closing ends what is under way: its reader sees a broken response, never a whole one", async (t) => {
  const app = await serve(optionsIn(t));
  t.after(() => app.close());
  const response = await app.fetch(
    new Request("http://localhost/ai/v1/chat/completions", {
      method: "POST",
      headers: { authorization: `Bearer ${app.apiKey}`, "content-type": "application/json" },
      body: JSON.stringify({
        model: "rehearsal",
        messages: [{ role: "user", content: "count to 1000 every 50 ms" }],
        stream: true,
      }),
    }),
  );
  const reading = response.text().then(
    (text) => text.includes("[DONE]"),
    () => false,
  );
  await app.close();
  assert.equal(await reading, false);
});
