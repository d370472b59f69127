/** LangChain, OpenAI Agents and OpenCode, as npm has them, with `holdfast/fetch`. `npm run clients` has every place, and the clients without it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { notHad } from "../gateway/clients/client-binary.ts";
import { binaryFor } from "../gateway/clients/opencode-binary.ts";
import { ClientWorld, OPENCODE, PLACES, SEEN } from "./client-cases.ts";
import { behind } from "../gateway/cable.ts";
import { installSdks, PROGRAM_SDKS, RESPONSES_SDKS } from "./sdk-programs.ts";

test("LangChain and OpenAI Agents with holdfast/fetch, by chat and by Responses: cut in the text and in a tool call, their users see nothing", async (t) => {
  try {
    await installSdks();
  } catch (error) {
    notHad(t, "LangChain and OpenAI Agents", error);
    return;
  }
  const world = await ClientWorld.begin(t);
  const places = [
    PLACES.find(({ name }) => name === "in a letter"),
    PLACES.find(({ name }) => name === "in a tool call"),
  ];
  for (const [at, client] of PROGRAM_SDKS.entries()) {
    const place = places[at];
    assert.ok(place !== undefined);
    const outcome = await world.run({ client, hasFetch: true, place, how: at === 0 ? "reset" : "end" });
    assert.deepEqual(outcome, { said: SEEN, looks: 1, calls: 2 }, client);
  }
  const events = [behind('"delta":"sehe '), behind('"type":"response.function_call_arguments.done"')];
  for (const [at, client] of RESPONSES_SDKS.entries()) {
    const place = { name: "in the events", at: client, place: events[at] ?? (() => 0) };
    const outcome = await world.run({ client, hasFetch: true, place, how: at === 0 ? "end" : "reset" });
    assert.deepEqual(outcome, { said: SEEN, looks: 1, calls: 2 }, client);
  }
});

test("OpenCode with holdfast/fetch in a provider module of its user: cut in the text, its user sees nothing", async (t) => {
  const binary = await binaryFor(t);
  if (binary === undefined) return;
  const world = await ClientWorld.begin(t, binary);
  const place = PLACES.find(({ name }) => name === "in the text");
  assert.ok(place !== undefined);
  const outcome = await world.run({ client: OPENCODE, hasFetch: true, place, how: "reset" });
  assert.deepEqual(outcome, { said: SEEN, looks: 1, calls: 2 });
});
