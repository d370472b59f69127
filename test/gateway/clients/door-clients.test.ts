/**
 * Five SDKs that speak Responses or Messages, as npm has them, each in its own conversation with one `holdfast serve`: its first answer is cut, the server is killed while its tool
 * runs, and it asks a second question. No tool runs twice, and no model call is paid twice.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { text as streamText } from "node:stream/consumers";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { openaiEvents } from "../../agent/models/providers/formats.ts";
import { openaiProvider, textOf } from "../../agent/models/providers/scripted.ts";
import { inTwo } from "../../agent/models/providers/server.ts";
import { blocksRunBy } from "../../docs/blocks.ts";
import { repository } from "../../docs/entry-points.ts";
import { CACHE, installSdks } from "../../fetch/sdk-programs.ts";
import { inherited } from "../../inherited.ts";
import { behind } from "../cable.ts";
import { notHad } from "./client-binary.ts";
import { DOOR_PROGRAMS, talkBy } from "./door-programs.ts";
import { LOCAL, serveGateway } from "./served-gateway.ts";
import { Stop } from "./staged-notes.ts";
import { StandingGateway } from "./standing-gateway.ts";

const CALLS = { text: "It is wrought now.", calls: [{ name: "note", args: { text: "one" } }] };
/** The role and three words. */
const HELD = 4;
/** It takes seconds on an idle machine; a hanging one must not hang the test run. */
const RUN_MS = 120_000;

test("openai SDK, AI SDK, LangChain, OpenAI Agents, Anthropic SDK: cut, killed between call and result, and a second turn", async (t) => {
  try {
    await installSdks();
  } catch (error) {
    notHad(t, "LangChain and OpenAI Agents", error);
    return;
  }
  let stop: Stop | undefined;
  const provider = await openaiProvider(t, (messages) => {
    if (messages.at(-1)?.["role"] === "tool") return { text: "It is written." };
    if (textOf(messages.at(-1)) === "And then?") return { text: "Nothing more." };
    const held = stop;
    if (held === undefined) return CALLS;
    stop = undefined;
    const events = openaiEvents(CALLS);
    return inTwo(events.slice(0, HELD), () => held.pass(), events.slice(HELD));
  });
  const gateway = await StandingGateway.begin(t, { provider });
  const { baseURL, apiKey, workspace, cable } = gateway;
  const fileOf = (sdk: string): string => join(workspace, `${sdk}.txt`);
  const talks = [];
  for (const sdk of DOOR_PROGRAMS) {
    const held = new Stop();
    stop = held;
    const cut = cable.cutNextAt(behind("wrought"));
    const questions = [`Note it, ${sdk}.`, "And then?"];
    const talk = talkBy(sdk, { baseURL, apiKey, model: LOCAL, questions, file: fileOf(sdk) });
    talks.push(talk);
    const ended = talk.then((said) => assert.fail(`${sdk} ended too early: ${JSON.stringify(said)}`));
    await Promise.race([cut, ended]);
    cable.hold();
    await gateway.isLeft();
    held.release();
    cable.letGo();
    while (!existsSync(fileOf(sdk))) await Promise.race([sleep(20), ended]);
  }
  assert.equal(provider.calls.length, DOOR_PROGRAMS.length, "each was asked again and came to its answer");
  await gateway.crash();
  for (const sdk of DOOR_PROGRAMS) writeFileSync(`${fileOf(sdk)}.go`, "");
  for (const [at, sdk] of DOOR_PROGRAMS.entries()) {
    assert.deepEqual(await talks[at], { said: ["It is written.", "Nothing more."], broken: 1 }, sdk);
    assert.equal(readFileSync(fileOf(sdk), "utf8"), "one", `${sdk}: the tool ran once`);
  }
  assert.equal(provider.calls.length, 3 * DOOR_PROGRAMS.length);
  const each = DOOR_PROGRAMS.length;
  assert.deepEqual(await gateway.answers(), { continued_turn: each, continued_conversation: each });
});

test("OpenAI Agents keeps its history in a conversation of the gateway's: killed while its tool runs, the next question continues it", async (t) => {
  try {
    await installSdks();
  } catch (error) {
    notHad(t, "OpenAI Agents", error);
    return;
  }
  const provider = await openaiProvider(t, (messages) => {
    if (messages.at(-1)?.["role"] === "tool") return { text: "It is written." };
    return textOf(messages.at(-1)) === "And then?" ? { text: `${messages.length} messages.` } : CALLS;
  });
  const gateway = await StandingGateway.begin(t, { provider });
  const { baseURL, apiKey, workspace } = gateway;
  const file = join(workspace, "conversation.txt");
  const questions = ["Note it.", "And then?"];
  const talk = talkBy("OpenAI Agents, in a conversation", {
    baseURL,
    apiKey,
    model: LOCAL,
    questions,
    file,
  });
  const ended = talk.then((said) => assert.fail(`it ended too early: ${JSON.stringify(said)}`));
  while (!existsSync(file)) await Promise.race([sleep(20), ended]);
  await gateway.crash();
  writeFileSync(`${file}.go`, "");
  assert.deepEqual(await talk, { said: ["It is written.", "5 messages."], broken: 0 });
  assert.equal(readFileSync(file, "utf8"), "one", "the tool ran once");
  assert.equal(provider.calls.length, 3);
});

/** What its user sees. */
function run(program: string, cwd: string, env: Readonly<Record<string, string>>): Promise<string> {
  const child = spawn(process.execPath, ["--input-type=module", "-e", program], {
    cwd,
    env: { ...inherited(), PATH: process.env["PATH"], ...env },
    stdio: ["ignore", "pipe", "inherit"],
    timeout: RUN_MS,
    killSignal: "SIGKILL",
  });
  return streamText(child.stdout);
}

test("Agents, LangChain and the AI SDK as docs/GATEWAY.md has them say what the model says", async (t) => {
  try {
    await installSdks();
  } catch (error) {
    notHad(t, "LangChain and OpenAI Agents", error);
    return;
  }
  const { running, apiKey } = await serveGateway(t);
  const blocks = blocksRunBy("test/gateway/clients/door-clients.test.ts");
  const said = await Promise.all(
    blocks.map(({ text }) => {
      const program = text.replaceAll("http://127.0.0.1:4600", running.url);
      // What is among our own dev dependencies is not in the cache.
      const cwd = text.includes("@ai-sdk/openai") ? repository : CACHE;
      return run(program, cwd, { HOLDFAST_API_KEY: apiKey });
    }),
  );
  assert.deepEqual(
    said,
    ["Agents", "LangChain", "the AI SDK"].map((sdk) => `Hello from ${sdk}.\n`),
  );
});
