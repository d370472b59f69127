/** `holdfast keys rotate-home`: an open answer, a parked session, a kept conversation and retries continue under a new home key; a rotation that is killed harms nothing. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { z } from "zod";
import { inherited } from "../inherited.ts";
import { Cli, type Running } from "./cli-process.ts";

const ROTATION = join(import.meta.dirname, "../node/programs/killed-rotation.ts");
const KEYS = ".config/holdfast/keys";

function post({ url, apiKey }: Running, path: string, body: object, key?: string): Promise<Response> {
  return fetch(`${url}/v1/${path}`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${apiKey}`,
      "content-type": "application/json",
      ...(key === undefined ? {} : { "idempotency-key": key }),
    },
    body: JSON.stringify({ model: "rehearsal", ...body }),
  });
}

const ANSWERED = z.object({
  choices: z.tuple([
    z.object({ message: z.looseObject({ tool_calls: z.tuple([z.looseObject({ id: z.string() })]) }) }),
  ]),
});

async function parkedBy(asked: Promise<Response>) {
  return ANSWERED.parse(await (await asked).json()).choices[0].message;
}

const says = (content: string) => ({ messages: [{ role: "user", content }] });
const OPEN = { ...says("count to 60 every 40 ms"), stream: true };

const WEATHER = {
  type: "function",
  function: {
    name: "weather",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};
const ASKED = { messages: says("What is the weather in Oslo?").messages, tools: [WEATHER] };

async function killedRotation(cli: Cli, moment: "before" | "behind"): Promise<void> {
  const child = spawn(process.execPath, [ROTATION, cli.dataDir, moment], {
    env: { ...inherited(), HOME: cli.home },
    stdio: ["ignore", "ignore", "inherit"],
  });
  await once(child, "close");
  assert.equal(child.signalCode, "SIGKILL");
}

/** The bytes of each file of keys, by name. */
function keyFiles(cli: Cli): ReadonlyMap<string, string> {
  const directory = join(cli.home, KEYS);
  return new Map(
    readdirSync(directory).map((name) => [name, readFileSync(join(directory, name), "utf8").trim()]),
  );
}

async function killed(server: Running): Promise<void> {
  server.signal("SIGKILL");
  await server.exit;
}

async function rotated(cli: Cli, ...flags: readonly string[]): Promise<unknown> {
  const done = await cli.run(["keys", "rotate-home", "--json", ...flags, ...cli.inDataDir]);
  assert.equal(done.code, 0, done.stderr);
  return z.object({ keyNumber: z.int(), older: z.array(z.int()) }).parse(JSON.parse(done.stdout));
}

test("E1: sessions, conversations and answers continue over rotations of the home key, killed ones too; an old key opens nothing new, a dropped one nothing at all", async (t) => {
  const cli = new Cli(t, { hasLine: true });
  let server = await cli.serve();
  const finished = await (await post(server, "chat/completions", says("count to 5"), "finished")).text();
  const message = await parkedBy(post(server, "chat/completions", ASKED));
  const [call] = message.tool_calls;
  const stored = await post(server, "responses", { input: "say first words", store: true });
  const kept = z.object({ id: z.string() }).parse(await stored.json());
  const open = await post(server, "chat/completions", OPEN, "open");
  await open.body?.getReader().read();
  const refused = await cli.run(["keys", "rotate-home", ...cli.inDataDir]);
  assert.deepEqual([refused.code, /stop the server at http/.test(refused.stderr)], [1, true], refused.stderr);
  await killed(server);

  const [[name, first = ""] = ["", ""]] = keyFiles(cli);
  await killedRotation(cli, "before");
  assert.deepEqual([...keyFiles(cli).keys()].toSorted(), [name, `${name}.next`]);
  assert.equal(keyFiles(cli).get(name), first);
  await killedRotation(cli, "behind");
  assert.equal(keyFiles(cli).get(name), first, "the database has the key of the other file now");
  assert.deepEqual(await rotated(cli), { keyNumber: 2, older: [1, 0] });
  assert.deepEqual([...keyFiles(cli).keys()], [name]);

  server = await cli.serve();
  const again = await post(server, "chat/completions", OPEN, "open");
  // The line had its call; whether the answer has ended meanwhile is a matter of time.
  assert.match(again.headers.get("x-holdfast-answer") ?? "", /^(?:attached|replayed)$/);
  const whole = await again.text();
  assert.match(whole, /"60 "[^]*finish_reason":"stop"/);
  const once = await post(server, "chat/completions", OPEN, "open");
  assert.deepEqual([once.headers.get("x-holdfast-answer"), await once.text()], ["replayed", whole]);
  const replayed = await post(server, "chat/completions", says("count to 5"), "finished");
  assert.equal(replayed.headers.get("x-holdfast-answer"), "replayed");
  assert.equal(await replayed.text(), finished);
  const result = { role: "tool", tool_call_id: call.id, content: "sunny in Oslo" };
  const continued = await post(server, "chat/completions", {
    ...ASKED,
    messages: [...ASKED.messages, message, result],
  });
  assert.match(await continued.text(), /sunny in Oslo/);
  const metrics = await (
    await fetch(`${server.url}/metrics`, { headers: { authorization: `Bearer ${server.apiKey}` } })
  ).text();
  assert.match(metrics, /holdfast_gateway_requests_total\{[^}]*continued_turn[^}]*\} 1\n/);
  const said = await fetch(`${server.url}/v1/responses/${kept.id}`, {
    headers: { authorization: `Bearer ${server.apiKey}` },
  });
  assert.match(await said.text(), /first words/);
  const next = await post(server, "responses", { input: "say more words", previous_response_id: kept.id });
  assert.equal(next.status, 200, await next.text());
  const begun = await post(server, "chat/completions", says("count to 3"), "begun");
  const said3 = await begun.text();
  server.signal("SIGTERM");
  await server.exit;

  const listed = await cli.run(["inspect", "--json", ...cli.inDataDir]);
  const streams = z.array(z.object({ idempotencyKey: z.string() })).parse(JSON.parse(listed.stdout));
  const names = streams.map(({ idempotencyKey }) => idempotencyKey);
  const [under0, under2] = [
    names.filter((one) => !one.includes(".")),
    names.filter((one) => one.endsWith(".h2")),
  ];
  assert.deepEqual([under0.length, under2.length, names.length], [4, 2, 6], names.join());
  const newest = under2[0] ?? "";
  for (const one of [under0[0] ?? "", newest]) {
    const shown = await cli.run(["inspect", "--stream", one, ...cli.inDataDir]);
    assert.match(shown.stdout, /< event .* text /, shown.stderr);
  }
  const withOld = { HOLDFAST_HOME_KEY: first };
  const other = await cli.run(["serve", "--port", "0", "--no-line", ...cli.inDataDir], withOld);
  assert.equal(other.code, 1);
  assert.match(
    other.stderr,
    /this is not the home key of .* \(the newest, if it was rotated\).*Nothing was changed/,
  );
  const old = join(cli.home, "old-key");
  writeFileSync(old, first);
  const sealed = await cli.run(["inspect", "--stream", newest, "--home-key-file", old, ...cli.inDataDir]);
  assert.match(sealed.stderr, /does not open/);

  assert.deepEqual(await rotated(cli, "--keep", "1"), { keyNumber: 3, older: [2] });
  server = await cli.serve();
  const dropped = await post(server, "chat/completions", says("count to 5"), "finished");
  assert.equal(dropped.headers.get("x-holdfast-answer"), "new");
  assert.match(await dropped.text(), /1 2 3 4 5/);
  const stays = await post(server, "chat/completions", says("count to 3"), "begun");
  assert.deepEqual([stays.headers.get("x-holdfast-answer"), await stays.text()], ["replayed", said3]);
});
