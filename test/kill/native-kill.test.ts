/**
 * G6 for Holdfast's own client, with real processes: `holdfast serve` and the server that `holdfast chat` starts are killed in the middle of a step, and their line
 * holds its call.
 *
 * The provider never says the same twice, and waits at each place until the next server is there. So a word of a second generation cannot pass by luck.
 */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { askServer } from "../../src/cli/control-client.ts";
import { connect, tool } from "../../src/node/index.ts";
import { MODEL, type Place } from "../agent/models/providers/formats.ts";
import {
  FLAVOURS,
  type ScriptedProvider,
  scriptedProvider,
  varyingText,
} from "../agent/models/providers/scripted.ts";
import { type Act, begin, fieldsOf, frameText, listOf } from "../agent/models/providers/server.ts";
import { stopServer } from "../cli/background-server.ts";
import { ChatRig } from "../cli/chat-process.ts";
import { Served } from "./served-line.ts";

interface Stop {
  readonly step: 1 | 2;
  /** The provider waits behind the first frame of it. */
  readonly place: Place;
  readonly release: PromiseWithResolvers<void>;
}

const stopAt = (step: Stop["step"], place: Place): Stop => {
  return { step, place, release: Promise.withResolvers() };
};

const THOUGHT = ["Which way ", "is it? "];

/** Calls its tool first, and says something once it has the result. */
function waiting(t: TestContext, stops: readonly Stop[], hasTool: boolean): Promise<ScriptedProvider> {
  const act: Act = async (response, { body }) => {
    const call = provider.calls.length;
    const step = listOf(body["messages"]).some(({ role }) => role === "tool") ? 2 : 1;
    const calls = hasTool && step === 1 ? [{ name: "note", args: { text: varyingText(call) } }] : [];
    const frames = FLAVOURS.chat.format.frames({ thinking: THOUGHT, text: varyingText(call), calls });
    begin(response);
    for (const [at, { place, data }] of frames.entries()) {
      response.write(frameText(data));
      if (frames.findIndex((frame) => frame.place === place) !== at) continue;
      await stops.find((stop) => stop.step === step && stop.place === place)?.release.promise;
    }
    response.end();
  };
  let provider: ScriptedProvider;
  return scriptedProvider(t, FLAVOURS.chat, { script: () => act }).then((made) => (provider = made));
}

test("G6: the native client: its server killed in a thought, in a tool's arguments and behind its result, and stopped in text: one request for each step, and nothing is taken back", async (t) => {
  const stops = [stopAt(1, "thinking"), stopAt(1, "text"), stopAt(1, "arguments"), stopAt(2, "text")];
  const provider = await waiting(t, stops, true);
  const served = new Served(t, provider.config);
  await served.start();
  const noted: string[] = [];
  const note = tool("Notes", { text: z.string() }, ({ text }) => (noted.push(text), "kept"));
  const place = { directory: served.home, homeKey: new Uint8Array(32).fill(7) };
  await using client = await connect(served.url, { apiKey: served.apiKey, tools: { note }, ...place });
  const said = { thinking: "", text: "", isWriting: false, changed: 0 };
  const shown: readonly (() => boolean)[] = [
    () => said.thinking !== "",
    () => said.text !== "",
    () => said.isWriting,
    () => noted.length > 0 && said.text.length > varyingText(1).length,
  ];
  let kills = 0;
  const turn = client.conversation("notes", { model: `local/${MODEL}` }).send("Which way is the wind?");
  for await (const part of await turn) {
    if (part.type === "thinking") said.thinking += part.text;
    if (part.type === "text") said.text += part.text;
    if (part.type === "tool" && part.change === "writing") said.isWriting = true;
    if (part.type === "retract" || part.type === "continued") said.changed++;
    if (shown[kills]?.() !== true) continue;
    const stop = stops[kills++];
    await served.signal(stop?.place === "text" && stop.step === 1 ? "SIGTERM" : "SIGKILL");
    await served.exit;
    await served.start();
    stop?.release.resolve();
  }
  assert.equal(kills, stops.length, "at all of them");
  const text = `${varyingText(1)}\n\n${varyingText(2)}`;
  assert.deepEqual(said, { thinking: THOUGHT.join("").repeat(2), text, isWriting: true, changed: 0 });
  assert.deepEqual(noted, [varyingText(1)]);
  assert.equal(provider.calls.length, 2);
});

test("G6: the server that `holdfast chat` has started is killed in the text: the next one continues the same answer, for one request", async (t) => {
  const stop = stopAt(1, "text");
  const provider = await waiting(t, [stop], false);
  const rig = new ChatRig(t);
  const config = join(rig.workspace, "its.config.json");
  const models = { default: `local/${MODEL}`, offered: [`local/${MODEL}`] };
  writeFileSync(config, JSON.stringify({ providers: { local: provider.config }, models }));
  const chat = rig.start("--config", config, "--json", "-p", "Which way is the wind?");
  chat.child.stdin.end();
  await chat.prints(/"text":"Calm /);
  await stopServer(rig.dataDir);
  while ((await askServer(rig.dataDir)) === undefined) await sleep(20);
  stop.release.resolve();
  const { code, stdout, stderr } = await chat.end;
  const result = stdout.trim().split("\n").at(-1) ?? "";
  assert.deepEqual([code, fieldsOf(JSON.parse(result))["text"]], [0, varyingText(1)], stderr);
  assert.doesNotMatch(stdout, /step_restarted|step_continued/);
  assert.equal(provider.calls.length, 1);
});
