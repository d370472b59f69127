/**
 * The JSON of the documents: settings are read by what reads them, a result is what the command prints, and what OpenCode is
 * given leads to a model.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { parseConfig } from "../../src/cli/config-file.ts";
import { CLAUDE } from "../../src/cli/setup/claude.ts";
import { Cli } from "../cli/cli-process.ts";
import { field, fieldsOf } from "../tidy/repository.ts";
import { blocksRunBy } from "./blocks.ts";

const blocks = blocksRunBy("test/docs/configs.test.ts").map(({ document, text }) => {
  const value: unknown = JSON.parse(text);
  return { document, text, value };
});

test("the JSON of the documents is of a known kind", () => {
  assert.deepEqual(
    blocks.map(({ document }) => document),
    ["README.md", "docs/CLI.md", "docs/CLI.md", "docs/GATEWAY.md", "docs/TOOLS.md"],
  );
});

test("every setting of the documents is one, and is read whole", () => {
  const settings = blocks.slice(2).filter(({ document }) => document !== "docs/GATEWAY.md");
  for (const { text, value } of settings) {
    const read: object = parseConfig(text, "/holdfast.config.json");
    for (const [name] of fieldsOf(value)) assert.ok(name in read, name);
  }
});

test("the documented result has the fields that the command prints", async (t) => {
  const cli = new Cli(t);
  const { url, apiKey } = await cli.serve();
  const chat = await cli.run(["chat", "--url", url, "-p", "say hi", "--json"], { HOLDFAST_API_KEY: apiKey });
  const printed: unknown = JSON.parse(chat.stdout.trim().split("\n").at(-1) ?? "");
  const names = (value: unknown): readonly string[] => fieldsOf(value).map(([name]) => name);
  assert.deepEqual(names(blocks[1]?.value), names(printed));
  assert.deepEqual(names(field(blocks[1]?.value, "usage")), names(field(printed, "usage")));
});

test("what OpenCode is given leads to a model that answers", async (t) => {
  const { url, apiKey } = await new Cli(t).serve();
  const provider = field(field(blocks[0]?.value, "provider"), "holdfast");
  const base = String(field(field(provider, "options"), "baseURL")).replace("http://127.0.0.1:4600", url);
  const [[model] = [""]] = fieldsOf(field(provider, "models"));
  assert.equal(field(blocks[0]?.value, "model"), `holdfast/${model}`);
  const response = await fetch(`${base}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
    body: JSON.stringify({ model, messages: [{ role: "user", content: "count to 3" }] }),
  });
  assert.match(await response.text(), /"content":"1 2 3 "/);
});

test("what Claude Code is given leads to a model that answers it", async (t) => {
  const { url, apiKey } = await new Cli(t).serve();
  const block = blocks.find(({ document }) => document === "docs/GATEWAY.md");
  const env = field(block?.value, "env");
  const base = String(field(env, "ANTHROPIC_BASE_URL")).replace("http://127.0.0.1:4600", url);
  const given = new Anthropic({ baseURL: base, authToken: apiKey, apiKey: null, maxRetries: 0 });
  for (const name of ["ANTHROPIC_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL"]) {
    const model = String(field(env, name));
    const messages = [{ role: "user" as const, content: "count to 3" }];
    const { content } = await given.messages.create({ model, max_tokens: 100, messages });
    assert.deepEqual(content, [{ type: "text", text: "1 2 3 " }]);
  }
  const settings = { url: "http://127.0.0.1:4600", apiKey: "hf_...", model: "rehearsal/rehearsal" };
  assert.deepEqual(block?.value, JSON.parse(CLAUDE.put(undefined, settings)), "as the command writes it");
});
