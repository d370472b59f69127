/** A request's own line in the log names what broke at the provider while it read its answer, and how that was continued. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { type Logger, pino } from "pino";
import { commandLog } from "../../src/cli/command-log.ts";
import { BrokenAnswers } from "../../src/node/broken-answers.ts";
import { serve } from "../../src/node/index.ts";
import type { Break } from "../agent/models/providers/breaking.ts";
import { MODEL } from "../agent/models/providers/formats.ts";
import { type Flavour, FLAVOURS, scriptedProvider, type Script } from "../agent/models/providers/scripted.ts";
import { bodyOf, Exchange, user } from "../gateway/openai-user.ts";
import { type Fields, fieldsOf, refuses } from "../agent/models/providers/server.ts";

const KEY = "sk-canary-of-the-provider";
const WORDS = "canary words of a user";
const NAME = "canary-idempotency-key";

interface Setting {
  readonly flavour: Flavour;
  readonly breaks?: readonly Break[];
  readonly script?: Script;
  readonly isStreamed?: boolean;
  readonly resume?: boolean;
  readonly logger?: Logger;
}

/** One answer of a server over a provider that breaks: the log's lines, and the one of the request. */
async function logged(t: TestContext, setting: Setting): Promise<{ lines: Fields[]; line: Fields }> {
  const { flavour, breaks = [], script, isStreamed = true, resume = false } = setting;
  const { config } = await scriptedProvider(t, flavour, script === undefined ? { breaks } : { script });
  const home = mkdtempSync(join(tmpdir(), "hf-ba-"));
  t.after(() => rmSync(home, { recursive: true, force: true }));
  const lines: Fields[] = [];
  const write = (text: string): void => void lines.push(fieldsOf(JSON.parse(text)));
  const server = await serve({
    data: join(home, "data"),
    port: 0,
    providers: { local: { ...config, apiKeyEnv: "LOCAL_KEY", resume } },
    models: { offered: [`local/${MODEL}`] },
    logger: setting.logger ?? pino({ level: "info" }, { write }),
    onNotice: () => undefined,
    machine: {
      env: { HOLDFAST_HOME_KEY: Buffer.alloc(32, 7).toString("base64url"), LOCAL_KEY: KEY },
      home,
      platform: process.platform,
      now: Date.now,
    },
  });
  const body = bodyOf([user(WORDS)], { model: `local/${MODEL}`, stream: isStreamed });
  const { apiKey = "" } = server;
  await new Exchange(server.url, body, { apiKey, headers: { "idempotency-key": NAME } }).reply();
  await server.close();
  for (const secret of [KEY, WORDS, NAME, apiKey, "wind"])
    assert.ok(!JSON.stringify(lines).includes(secret), `E4: ${secret} is in the log`);
  return { lines, line: lines.find(({ route }) => route === "chat") ?? {} };
}

const text: Break = { behind: 8, how: "end" };

/** Where a provider breaks, and what the line of the request says then. */
const CASES: Readonly<Record<string, Setting & { readonly says: readonly [unknown, unknown] }>> = {
  "it does not break": { flavour: FLAVOURS.chat, says: [undefined, undefined] },
  "in the text, and the model continues it": {
    flavour: FLAVOURS.vllm,
    breaks: [text],
    says: ["text/eof", "prefill"],
  },
  "in the text, and its step begins anew, twice": {
    flavour: FLAVOURS.claude,
    breaks: [text, text],
    isStreamed: false,
    says: ["text/eof*2", "restart*2"],
  },
  "in the text, in two ways": {
    flavour: FLAVOURS.claude,
    breaks: [text, { behind: 8, how: "malformed" }],
    isStreamed: false,
    says: ["text/eof,text/decode", "restart*2"],
  },
  "in the text, and nothing can be done": {
    flavour: FLAVOURS.chat,
    breaks: [text],
    says: ["text/eof", undefined],
  },
  "in the text, and the provider has the rest": {
    flavour: FLAVOURS.responses,
    breaks: [text],
    resume: true,
    says: ["text/eof", "resume"],
  },
  "before the text, and another request is made": {
    flavour: FLAVOURS.chat,
    breaks: [{ behind: "first", how: "end" }],
    says: ["first/eof", undefined],
  },
  "it refuses, and nothing broke": {
    flavour: FLAVOURS.chat,
    script: () => refuses(400, { error: { message: "no" } }),
    says: [undefined, undefined],
  },
};

for (const [name, { says, ...setting }] of Object.entries(CASES)) {
  test(`a request's line in the log says where the provider broke, and how that was continued: ${name}`, async (t) => {
    const { line, lines } = await logged(t, setting);
    assert.deepEqual([line["broke"], line["continued"]], says, JSON.stringify(lines));
    assert.equal(line["answer"], "new");
    // The lines of the breaks themselves have its stream.
    const own = lines.filter(({ msg }) => /broke|begins anew/.test(String(msg)));
    assert.ok(
      own.every(({ stream }) => stream === line["stream"]),
      JSON.stringify(own),
    );
  });
}

test("a person at a terminal reads in a request's line what broke, and how that was continued", async (t) => {
  const written: string[] = [];
  const stderr = { isTTY: true, write: (line: string) => written.push(line) };
  const logger = commandLog("info", { stderr, env: { NO_COLOR: "1" } });
  await logged(t, { flavour: FLAVOURS.vllm, breaks: [text], logger });
  const line = written.find((one) => one.includes("route=chat")) ?? "";
  assert.match(line, / request .* answer=new .*broke=text\/eof continued=prefill /);
});

test("what broke is named by all requests that read the answer then, else by the next one, and by no other stream's", () => {
  const breaks = new BrokenAnswers();
  const of = { principal: "alice", idempotencyKey: "one" };
  const stream = breaks.note(of, "continued", "replay");
  assert.equal(stream, breaks.note(of, "broke", "first/reset"));
  const [first, second] = [breaks.read(stream ?? ""), breaks.read(stream ?? "")];
  const other = breaks.read(breaks.note({ ...of, principal: "bob" }, "broke", "text/eof") ?? "");
  breaks.note(of, "broke", "text/stall");
  breaks.note(of, "broke", "text/stall");
  assert.deepEqual(first(), { broke: "first/reset,text/stall*2", continued: "replay" });
  assert.deepEqual(second(), { broke: "text/stall*2", continued: undefined });
  assert.deepEqual(other(), { broke: "text/eof", continued: undefined });
  assert.deepEqual(breaks.read(stream ?? "")(), { broke: undefined, continued: undefined }, "once");
  assert.equal(breaks.note(undefined, "broke", "text/eof"), undefined);
  // What no request ever reads is forgotten: at first what is oldest.
  breaks.note(of, "broke", "text/eof");
  for (let at = 0; at < 1_023; at++)
    breaks.note({ ...of, idempotencyKey: `other ${at}` }, "broke", "text/eof");
  assert.equal(breaks.read(stream ?? "")().broke, "text/eof");
  breaks.note(of, "broke", "text/eof");
  for (let at = 0; at < 1_024; at++)
    breaks.note({ ...of, idempotencyKey: `more ${at}` }, "broke", "text/eof");
  assert.equal(breaks.read(stream ?? "")().broke, undefined);
});
