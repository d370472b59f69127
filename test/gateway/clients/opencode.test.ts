/**
 * OpenCode, the real binary, against `holdfast serve`: a turn with its bash tool, and a second run that goes on.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { z } from "zod";
import type { Asked } from "../../agent/models/providers/server.ts";
import { repository } from "../../docs/entry-points.ts";
import { blocksOf } from "../../docs/markdown.ts";
import { openaiProvider, type Script, textOf, toolsOf } from "../../agent/models/providers/scripted.ts";
import { binaryFor, Opencode } from "./opencode-binary.ts";
import { assertEachExtendsTheOneBefore, LOCAL, REHEARSAL, serveGateway } from "./served-gateway.ts";

const MAKES = { command: "echo made >> made.txt", description: "Makes the file" };

/** Without tools it is asked for a title. */
const isTitle = (asked: Asked): boolean => toolsOf(asked).length === 0;

const script: Script = (messages, asked) => {
  if (isTitle(asked)) return { text: "A file" };
  const last = messages.at(-1);
  if (last?.["role"] === "tool") return { text: "The file is there." };
  if (textOf(last).includes("second")) return { text: "It still is." };
  return { thinking: "By bash.", text: "I make it.", calls: [{ name: "bash", args: MAKES }] };
};

test("OpenCode: its tool runs once in the open turn, and run -c goes on in the conversation", async (t) => {
  const binary = await binaryFor(t);
  if (binary === undefined) return;
  const provider = await openaiProvider(t, script);
  const gateway = await serveGateway(t, { provider });
  const { baseURL, apiKey, workspace: home } = gateway;
  const opencode = new Opencode({ binary, home, baseURL, apiKey, model: LOCAL });

  const first = await opencode.run("Make the file.");
  assert.equal(first.code, 0, first.stderr);
  assert.match(first.stdout, /I make it\.\s+The file is there\./);
  assert.equal(readFileSync(join(opencode.project, "made.txt"), "utf8"), "made\n");
  assert.deepEqual(await gateway.answers(), { "fresh new": 2, continued_turn: 1 });

  const second = await opencode.run("And now, a second question?", "-c");
  assert.equal(second.code, 0, second.stderr);
  assert.match(second.stdout, /It still is\./);
  assert.equal(readFileSync(join(opencode.project, "made.txt"), "utf8"), "made\n");
  assert.deepEqual(await gateway.answers(), { "fresh new": 2, continued_turn: 1, continued_conversation: 1 });

  assert.equal(provider.calls.filter(isTitle).length, 1);
  const turns = provider.calls.filter((asked) => !isTitle(asked));
  assert.equal(turns.length, 3, "two steps, and one for the second run");
  assertEachExtendsTheOneBefore(turns);
});

const CONFIG = z.looseObject({
  provider: z.record(z.string(), z.looseObject({ options: z.looseObject({}) })),
  model: z.string(),
});

/** What people paste. */
function readmeConfig(): z.infer<typeof CONFIG> {
  const blocks = blocksOf(readFileSync(join(repository, "README.md"), "utf8"));
  const found = blocks.filter(({ language, text }) => language === "json" && text.includes("ai-sdk"));
  assert.equal(found.length, 1, "the README has one opencode.json");
  return CONFIG.parse(JSON.parse(found[0]?.text ?? ""));
}

test("OpenCode, rehearsal model, with the README's opencode.json: its bash tool, as the script says", async (t) => {
  const binary = await binaryFor(t);
  if (binary === undefined) return;
  const gateway = await serveGateway(t);
  const { baseURL, apiKey, workspace: home } = gateway;
  const opencode = new Opencode({ binary, home, baseURL, apiKey, model: REHEARSAL, config: readmeConfig() });
  const run = await opencode.run(
    `A rehearsal:\ncall bash ${JSON.stringify(MAKES)}\nthen\nsay It is rehearsed.`,
  );
  assert.equal(run.code, 0, run.stderr);
  assert.match(run.stdout, /It is rehearsed\./);
  assert.equal(readFileSync(join(opencode.project, "made.txt"), "utf8"), "made\n");
  assert.deepEqual(await gateway.answers(), { "fresh new": 2, continued_turn: 1 });
});
