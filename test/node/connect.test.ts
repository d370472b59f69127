/** `connect` and `tool` of the package against a real server in this process: what a program types, and what it gets. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { z } from "zod";
import {
  connect,
  type ConnectOptions,
  type Holdfast,
  type RunningServer,
  serve,
  tool,
  type Turn,
  type TurnPart,
} from "../../src/node/index.ts";
import { serverLog } from "../../src/node/server-log.ts";

const HOME_KEY: Uint8Array = new Uint8Array(32).fill(7);

interface Place {
  readonly home: string;
  readonly app: RunningServer;
  readonly program: (options?: ConnectOptions) => Promise<Holdfast>;
}

async function placeOf(t: TestContext): Promise<Place> {
  const home = mkdtempSync(join(tmpdir(), "holdfast-connect-"));
  const env = { HOLDFAST_HOME_KEY: Buffer.from(HOME_KEY).toString("base64url") };
  const machine = { env, home, platform: process.platform, now: Date.now };
  const app = await serve({ data: join(home, "data"), port: 0, machine, logger: serverLog("silent") });
  const programs: Holdfast[] = [];
  t.after(async () => {
    for (const program of programs) await program.close();
    await app.close();
    rmSync(home, { recursive: true, force: true });
  });
  return {
    home,
    app,
    program: async (options = {}) => {
      const { apiKey } = app;
      const program = await connect(app.url, { apiKey, directory: home, homeKey: HOME_KEY, ...options });
      programs.push(program);
      return program;
    },
  };
}

async function textOf(turn: Turn): Promise<string> {
  const { reason, text, failure } = await turn.ended;
  assert.equal(reason, "completed", failure?.message);
  return text;
}

test("a tool takes a shape of zod, a schema of zod or a JSON Schema, and what it gives is told to the model", async (t) => {
  const { program } = await placeOf(t);
  const json = { type: "object", properties: { city: { type: "string" } } } as const;
  const Trip = z.object({ to: z.string(), nights: z.number().default(2) });
  const holdfast = await program({
    tools: {
      weather: tool("Weather", { city: z.string() }, ({ city }) => `sunny in ${city.toUpperCase()}`),
      book: tool("Books", Trip, async ({ to, nights }) => ({ to, nights: nights + 1 })),
      raw: tool("Raw", json, ({ city }) => `${typeof city} came`),
      nothing: tool("Nothing", {}, () => undefined),
      fails: tool("Fails", {}, () => {
        throw new Error("no seat is left");
      }),
    },
  });
  const says = async (call: string): Promise<string> =>
    textOf(await holdfast.conversation("trip").send(`call ${call}`));
  assert.match(await says('weather {"city":"Oslo"}'), /"done": sunny in OSLO/);
  assert.match(await says('book {"to":"Rome"}'), /"done": \{"to":"Rome","nights":3\}/);
  assert.match(await says('raw {"city":[]}'), /"done": object came/);
  assert.match(await says("nothing {}"), /"done": done/);
  assert.match(await says("fails {}"), /no seat is left/);
  assert.match(
    await says('weather {"city":7}'),
    /These arguments do not fit:\n.*expected string, received number/,
  );
  const { turns } = await holdfast.conversation("trip").full();
  assert.equal(turns.length, 6, "one conversation continues");
});

test("arguments that no model can be told of are refused where the tool is made", () => {
  const run = (): string => "";
  assert.throws(
    () => tool("Wrong", z.object({ when: z.date() }), run),
    /a model cannot be told of these arguments: .*Date/,
  );
  assert.throws(() => tool("Wrong", z.string(), run), /the arguments of a tool are a shape such as/);
  const old = z.custom<Record<string, never>>().parse({ city: { _def: {} } });
  assert.throws(() => tool("Wrong", old, run), /zod 4.*; "city" is something else/);
});

test("a tool tells of its progress, knows its call and its conversation, and is asked for before it runs", async (t) => {
  const { program } = await placeOf(t);
  const asked: unknown[] = [];
  const calls: string[] = [];
  const holdfast = await program({
    tools: {
      pay: tool(
        "Pays",
        { euros: z.number() },
        async ({ euros }, { progress, callId, conversation }) => {
          calls.push(`${conversation} ${callId.split(":")[1]}`);
          progress("asking the bank");
          return `paid ${euros}`;
        },
        { needsApproval: true },
      ),
    },
    approve: ({ tool: name, args, conversation }) => {
      asked.push([name, args, conversation]);
      return asked.length === 1 ? true : "not today";
    },
  });
  const parts: TurnPart[] = [];
  const turn = await holdfast.conversation("shop").send('call pay {"euros":5}');
  for await (const part of turn) parts.push(part);
  assert.match((await turn.ended).text, /"done": paid 5/);
  assert.deepEqual(asked, [["pay", { euros: 5 }, "shop"]]);
  assert.deepEqual(calls, ["shop 0.0.0"]);
  const lines = parts.flatMap((part) => (part.type === "tool-output" ? [[part.stream, part.text]] : []));
  assert.deepEqual(lines, [["progress", "asking the bank"]]);
  const types = new Set(parts.map(({ type }) => type));
  for (const type of ["text", "tool", "usage", "state", "end"] as const) assert.ok(types.has(type), type);

  const refused = await textOf(await holdfast.conversation("shop").send('call pay {"euros":6}'));
  assert.match(refused, /"denied": .*not today/);
  assert.equal(calls.length, 1);
});

test("without `approve` a tool that needs one does not run, and the model is told why", async (t) => {
  const { program } = await placeOf(t);
  const pay = tool("Pays", {}, () => assert.fail("it ran"), { needsApproval: true });
  const holdfast = await program({ tools: { pay } });
  const text = await textOf(await holdfast.conversation("shop").send("call pay {}"));
  assert.match(text, /"denied": .*"pay" needs an approval, and this program has no `approve`/);
});

test("what the agent asks is answered by `answer`: an option, several, words, or nothing", async (t) => {
  const { program } = await placeOf(t);
  const seen: unknown[] = [];
  const holdfast = await program({
    answer: ({ text, options, isMultiple }) => {
      seen.push([text, options, isMultiple]);
      if (text === "Where?") return "Oslo";
      return text === "What?" ? ["tent", "boots"] : undefined;
    },
  });
  const questions = [
    { text: "Where?", options: ["Oslo", "Rome"] },
    { text: "What?", options: ["tent", "coat"], allow_multiple: true },
    { text: "Why?" },
  ];
  const asks = `call ask_user ${JSON.stringify({ questions })}`;
  const turn = await holdfast.conversation("trip").send(asks);
  const types: string[] = [];
  for await (const { type } of turn) types.push(type);
  assert.ok(types.includes("question"));
  assert.match((await turn.ended).text, /"done": \S+: option \S+\n\S+: option \S+; boots$/);
  assert.deepEqual(seen, [
    ["Where?", ["Oslo", "Rome"], false],
    ["What?", ["tent", "coat"], true],
    ["Why?", [], false],
  ]);

  const silent = await program();
  assert.match(await textOf(await silent.conversation("quiet").send(asks)), /There is no tool "ask_user"/);
});

test("a signal aborts the turn, and the tool that runs is told", async (t) => {
  const { program } = await placeOf(t);
  const started = Promise.withResolvers<void>();
  const wait = tool("Waits", {}, async (_, { signal }) => {
    started.resolve();
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    return "stopped";
  });
  const holdfast = await program({ tools: { wait } });
  const stop = new AbortController();
  const turn = await holdfast.conversation("trip").send("call wait {}", { signal: stop.signal });
  await started.promise;
  stop.abort();
  assert.equal((await turn.ended).reason, "aborted");
  await assert.rejects(holdfast.conversation("trip").send("hello", { signal: stop.signal }), {
    name: "AbortError",
  });
});

test("the same words find the turn that is under way, other words are refused, and a program that comes later goes on with it", async (t) => {
  const { program } = await placeOf(t);
  const [reached, go] = [Promise.withResolvers<void>(), Promise.withResolvers<string>()];
  let runs = 0;
  const slow = tool("Slow", {}, () => {
    runs++;
    reached.resolve();
    return go.promise;
  });
  const first = await program({ tools: { slow } });
  const turn = await first.conversation("trip").send("call slow {}");
  await reached.promise;
  assert.equal(await first.conversation("trip").send("call slow {}"), turn);
  await assert.rejects(first.conversation("trip").send("something else"), {
    code: "busy",
    message: /conversation "trip" is still answering something else: .*`resume\(\)`/,
  });
  assert.equal(await first.conversation("other").resume(), undefined);
  await first.close();
  assert.equal((await turn.ended).reason, "left");

  const other = await program({ tools: {} });
  assert.deepEqual(await other.resume(), [], "a program without its tools leaves the turn alone");
  await other.close();
  const second = await program({ tools: { slow } });
  const again = await second.conversation("trip").send("call slow {}");
  // It was cut off while it ran, and is not repeatable: it does not run again, and the model is told.
  assert.match(await textOf(again), /"unknown": /);
  assert.equal(runs, 1);
  assert.deepEqual(await second.resume(), []);
  const { turns } = await second.conversation("trip").full();
  assert.equal(turns.length, 1);
  go.resolve("late");
});

test("a turn that its server has forgotten is begun anew with the same words", async (t) => {
  const place = await placeOf(t);
  const { home, app } = place;
  const hold = Promise.withResolvers<string>();
  const reached = Promise.withResolvers<void>();
  let runs = 0;
  const slow = tool("Slow", {}, () => {
    if (++runs > 1) return "at once";
    reached.resolve();
    return hold.promise;
  });
  const first = await place.program({ tools: { slow } });
  await first.conversation("trip").send("call slow {}");
  await reached.promise;
  await first.close();
  await app.close();
  hold.resolve("");
  const env = { HOLDFAST_HOME_KEY: Buffer.from(HOME_KEY).toString("base64url") };
  const machine = { env, home, platform: process.platform, now: Date.now };
  const logger = serverLog("silent");
  await using empty = await serve({ data: join(home, "other"), port: 0, machine, logger });
  await using second = await connect(empty.url, {
    apiKey: empty.apiKey,
    directory: home,
    homeKey: HOME_KEY,
    tools: { slow },
  });
  const again = await second.conversation("trip").send("call slow {}");
  assert.match(await textOf(again), /"done": at once/);
});

test("what keeps a program from connecting is said in plain words", async (t) => {
  const { app, home } = await placeOf(t);
  const options = { directory: home, homeKey: HOME_KEY, patienceMs: 300 };
  await assert.rejects(connect("http://127.0.0.1:1", options), {
    code: "unavailable",
    message:
      /^no Holdfast server answers at http:\/\/127\.0\.0\.1:1 \(.*ECONNREFUSED.*\): start one with `npx holdfast serve`/,
  });
  await assert.rejects(connect(app.url, { ...options, apiKey: "not-a-key-of-this-server" }), {
    code: "unauthenticated",
    message: /does not know this API key: give `apiKey`, or set HOLDFAST_API_KEY/,
  });
  const mistyped: object = { tols: {} };
  await assert.rejects(
    connect(app.url, { ...options, ...mistyped }),
    /tols is not known; did you mean "tools"\?/,
  );
  const named = { "not a name": tool("Wrong", {}, () => "") };
  await assert.rejects(
    connect(app.url, { ...options, tools: named }),
    /the function tool "not a name" needs a name of/,
  );
});
