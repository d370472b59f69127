/**
 * `holdfast chat -p` when a provider breaks off in the middle of its answer, and then says something else or the rest of it.
 */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import type { Act } from "../agent/models/providers/server.ts";
import { chunkOf, MODEL } from "../agent/models/providers/formats.ts";
import { FLAVOURS, openaiProvider, scriptedProvider } from "../agent/models/providers/scripted.ts";
import { COMMAND } from "../command.ts";
import { inherited } from "../inherited.ts";
import { ChatProcess, hasScript } from "./chat-process.ts";
import { Cli } from "./cli-process.ts";

const breaksOff: Act = (response) => {
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(`data: ${JSON.stringify(chunkOf({ role: "assistant", content: "Half of it" }))}\n\n`, () =>
    response.destroy(),
  );
};

interface Asking {
  readonly cli: Cli;
  readonly args: readonly string[];
  readonly apiKey: string;
}

/** A server whose model is cut off once, and the command that asks it. */
async function asking(t: TestContext): Promise<Asking> {
  let calls = 0;
  const provider = await openaiProvider(t, () => (calls++ === 0 ? breaksOff : { text: "All of it." }));
  return askingAt(t, { type: "openai-compatible", baseURL: provider.baseURL });
}

async function askingAt(t: TestContext, provider: object): Promise<Asking> {
  const cli = new Cli(t);
  const local = { ...provider, apiKeyEnv: "LOCAL_KEY" };
  const models = { default: `local/${MODEL}`, offered: [`local/${MODEL}`] };
  writeFileSync(join(cli.home, "holdfast.config.json"), JSON.stringify({ providers: { local }, models }));
  const { url, apiKey } = await cli.serve([], { LOCAL_KEY: "of-the-provider" });
  return { cli, args: ["chat", "--url", url, "-p", "tell"], apiKey };
}

test("-p on a pipe prints the answer that counts, and --json which words do not", async (t) => {
  const { cli, args, apiKey } = await asking(t);
  const { stdout, stderr } = await cli.run([...args, "--json"], { HOLDFAST_API_KEY: apiKey });
  const types = stdout.match(/"type":"(?:text|step_\w+|result)"/g)?.map((type) => type.slice(8, -1));
  assert.deepEqual(
    types?.filter((type, at) => type !== "text" || types[at - 1] !== "text"),
    ["step_started", "text", "step_continued", "step_restarted", "text", "result"],
    stdout + stderr,
  );
  assert.match(stdout, /"text":"All of it\."/);
});

test("-p on a terminal says that the words of a step that begins anew are void", async (t) => {
  if (!hasScript())
    return t.diagnostic("there is no `script` of util-linux here: the terminal is not tested");
  const { cli, args, apiKey } = await asking(t);
  const command = ["exec", process.execPath, COMMAND, ...args, "2>/dev/null"].join(" ");
  const env = {
    ...inherited(),
    PATH: process.env["PATH"],
    HOME: cli.home,
    TERM: "xterm",
    HOLDFAST_API_KEY: apiKey,
  };
  const chat = new ChatProcess("script", ["-qfec", `stty cols 200; ${command}`, "/dev/null"], {
    cwd: cli.home,
    env,
  });
  await chat.end;
  assert.match(chat.screen, /Half of it\n↻ [^]*void[^]*\n\nAll of it\.\n/);
});

test("-p prints an answer that its model continued in one piece, and a quiet note beside it", async (t) => {
  const text = "The wind is north by east, and it turns before the night.";
  const breaks = [{ behind: 8, how: "rst" }] as const;
  const provider = await scriptedProvider(t, FLAVOURS.vllm, { script: () => ({ text }), breaks });
  const { cli, args, apiKey } = await askingAt(t, provider.config);
  const { stdout, stderr } = await cli.run(args, { HOLDFAST_API_KEY: apiKey });
  assert.equal(stdout, `${text}\n`);
  assert.match(stderr, /^\[the answer was cut off; its model is asked to write on\]$/m);
  assert.equal(provider.calls.length, 2);
});
