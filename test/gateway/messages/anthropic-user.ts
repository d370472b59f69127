/**
 * A user of the `@anthropic-ai/sdk`, and a gateway with a model that says what it was told.
 */
import type { TestContext } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { ALICE_KEY } from "../../server/http/rig.ts";
import { lastTold, PacedModel, type PacedScript } from "../paced-model.ts";
import { World, type WorldOptions } from "../world.ts";

export const MODEL = "paced/model";

export const NOTE: Anthropic.Tool = {
  name: "note",
  description: "Writes a note.",
  input_schema: { type: "object", properties: { text: { type: "string" } } },
};

/** Says what it was told, and calls tools when it is asked to note. */
export const SCRIPT: PacedScript = (call) => {
  const told = lastTold(call);
  if (told === "note twice") {
    return [
      "Two notes. ",
      { tool: "note", args: { text: "one", at: 1 } },
      { tool: "note", args: { text: "two" } },
    ];
  }
  return [`You said ${told}.`];
};

export const clientOf = (world: World, apiKey = ALICE_KEY): Anthropic =>
  new Anthropic({ baseURL: world.url, apiKey, maxRetries: 0 });

export async function begin(t: TestContext, script = SCRIPT, options: WorldOptions = {}) {
  const model = new PacedModel(script);
  const world = await World.begin(t, model, options);
  return { model, world, anthropic: clientOf(world) };
}

export const ASKED = { model: MODEL, max_tokens: 1_000 } as const;
export const user = (content: Anthropic.MessageParam["content"]): Anthropic.MessageParam => ({
  role: "user",
  content,
});

export const textOf = ({ content }: Anthropic.Message): string =>
  content.map((block) => (block.type === "text" ? block.text : "")).join("");
