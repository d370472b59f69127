import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { HELP, readScript } from "../../src/agent/models/rehearsal-script.ts";
import { parseConfig } from "../../src/cli/config-file.ts";
import { repository } from "../docs/entry-points.ts";
import { blocksRunBy } from "../docs/blocks.ts";

const parse = (config: object) => parseConfig(JSON.stringify(config), "/etc/holdfast.config.json");

test("providers and models are read as they are said", () => {
  const config = {
    providers: {
      local: { type: "openai-compatible", baseURL: "http://127.0.0.1:8000/v1", headers: { "x-team": "sea" } },
      work: {
        type: "anthropic",
        apiKeyEnv: ["WORK_KEY", "SPARE_KEY"],
        silenceMs: 60_000,
        cooldown: { failures: 5, seconds: 10 },
      },
      play: { type: "rehearsal" },
    },
    models: {
      default: "local/org/model",
      offered: ["local/org/model", "work/claude-opus-5-5"],
      limits: { "local/org/model": { contextTokensMax: 32_768, outputTokensMax: 4_096 } },
      fallbacks: { "work/claude-opus-5-5": ["local/org/model"] },
    },
  };
  assert.deepEqual(parse(config), config);
  assert.deepEqual(parse({}), {});
});

const local = { type: "openai-compatible", baseURL: "http://127.0.0.1:8000/v1" };

const WRONG: readonly (readonly [object, RegExp])[] = [
  [{ providers: [] }, /"providers" must be an object/],
  [{ providers: { "A B": local } }, /"providers\.A B" must be named with/],
  [{ providers: { a: { type: "openrouter" } } }, /"providers\.a\.type" must be one of openai, anthropic/],
  [{ providers: { a: { type: "openai-compatible" } } }, /"providers\.a\.baseURL" is missing/],
  [
    { providers: { a: { ...local, baseURL: "127.0.0.1:8000" } } },
    /"providers\.a\.baseURL" must begin with http/,
  ],
  [
    { providers: { a: { ...local, baseURL: "http://u:p@x/v1" } } },
    /baseURL" must not hold a user or password$/,
  ],
  [
    { providers: { a: { ...local, baseUrl: "x" } } },
    /"providers\.a\.baseUrl" is not known; did you mean "baseURL"/,
  ],
  [
    { providers: { a: { ...local, apiKey: "sk-1" } } },
    /"providers\.a\.apiKey" does not belong in a file; name the environment/,
  ],
  [
    { providers: { a: { ...local, apiKeyEnv: "sk-proj-1" } } },
    /"providers\.a\.apiKeyEnv" must be the name of an environment/,
  ],
  [
    { providers: { a: { ...local, apiKeyEnv: ["KEY", "sk-proj-1"] } } },
    /"providers\.a\.apiKeyEnv" must be the name of an environment/,
  ],
  [
    { providers: { a: { ...local, cooldown: { failures: 0 } } } },
    /cooldown\.failures" must be a whole number/,
  ],
  [{ models: { fallbacks: { "a/b": "c/d" } } }, /"models\.fallbacks\.a\/b" must be a list of models/],
  [{ models: { fallbacks: { "a/b": ["c"] } } }, /fallbacks\.a\/b\[0\]" must be "provider\/model"/],
  [
    { providers: { a: { ...local, headers: { Authorization: "Bearer x" } } } },
    /headers\.Authorization" does not belong/,
  ],
  [{ providers: { a: { ...local, headers: { "a b": "x" } } } }, /headers\.a b" must be the name of a header/],
  [{ providers: { a: { ...local, headers: { a: "x\ny" } } } }, /headers\.a" must be text/],
  [
    { providers: { a: { ...local, silenceMs: 5 } } },
    /"providers\.a\.silenceMs" must be a whole number from 1000/,
  ],
  [{ models: { defualt: "a/b" } }, /"models\.defualt" is not known; did you mean "default"/],
  [{ models: { default: "gpt" } }, /"models\.default" must be "provider\/model"/],
  [{ models: { offered: [] } }, /"models\.offered" must name at least one/],
  [{ models: { default: "a/b/../c" } }, /"models\.default" must have no \?, #, %/],
  [{ models: { offered: ["a/b?c"] } }, /"models\.offered\[0\]" must have no \?, #, %/],
  [{ models: { offered: ["a/b", "c"] } }, /"models\.offered\[1\]" must be "provider\/model"/],
  [{ models: { limits: { c: {} } } }, /"models\.limits\.c" must be "provider\/model"/],
  [
    { models: { limits: { "a/b": { contextTokens: 1 } } } },
    /contextTokens" is not known; did you mean "contextTokensMax"/,
  ],
  [
    { models: { limits: { "a/b": { contextTokensMax: 0 } } } },
    /contextTokensMax" must be a whole number from 1/,
  ],
];

test("what is wrong is refused, and the field is named", () => {
  for (const [config, expected] of WRONG)
    assert.throws(() => parse(config), expected, JSON.stringify(config));
});

test("E4: an API key that was pasted into the file is not shown", () => {
  const secret = "sk-proj-0123456789";
  for (const field of ["apiKey", "apiKeyEnv"]) {
    assert.throws(
      () => parse({ providers: { a: { ...local, [field]: secret } } }),
      (error) => error instanceof Error && !error.message.includes(secret),
    );
  }
});

const document = readFileSync(join(repository, "docs/MODELS.md"), "utf8");
const blockOf = (language: string): string =>
  blocksRunBy("test/cli/model-config.test.ts").find((block) => block.language === language)?.text ?? "";

test("the config of the document is read, whole", () => {
  const text = blockOf("json");
  assert.deepEqual(parseConfig(text, "/holdfast.config.json"), JSON.parse(text));
});

test("the document has every directive of the rehearsal model, and its script is one", () => {
  const directives = HELP.split("\n")
    .slice(1)
    .flatMap((line) => /^(?<directive>\S.*?)(?: {2,}|$)/.exec(line)?.groups?.["directive"] ?? []);
  assert.equal(directives.length, 15);
  for (const directive of directives) assert.ok(document.includes(`| \`${directive}\` `), directive);
  const kinds = readScript(blockOf("text"), []).map((step) => step.map(({ kind }) => kind));
  assert.deepEqual(kinds, [["think", "say", "call", "call"], ["result", "call"], ["say"]]);
});
