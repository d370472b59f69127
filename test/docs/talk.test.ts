/**
 * `talk.js` of the client's manual, as it stands there, in front of a real server that is killed in the middle of an answer
 * by a model that never says the same twice: what it printed is the answer.
 */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Cli, type Running } from "../cli/cli-process.ts";
import { ChatProcess, hasScript } from "../cli/chat-process.ts";
import { chunkOf, MODEL } from "../agent/models/providers/formats.ts";
import { openaiProvider } from "../agent/models/providers/scripted.ts";
import { inherited } from "../inherited.ts";
import { blocksRunBy } from "./blocks.ts";
import { repository } from "./entry-points.ts";

const [talk] = blocksRunBy("test/docs/talk.test.ts");
const HOOK = join(repository, "test/docs/resolve-holdfast.ts");
const FIRST = "This is how it began: ";
const SECOND = "And this is all that it says in the end.";

type Wrap = (command: readonly string[]) => readonly [string, ...string[]];

interface Place {
  readonly cli: Cli;
  readonly serve: (port?: string) => Promise<Running>;
  readonly run: (wrapped: Wrap, url: string) => ChatProcess;
}

async function place(t: TestContext): Promise<Place> {
  let calls = 0;
  const provider = await openaiProvider(t, () => {
    if (calls++ > 0) return { text: SECOND };
    return async (response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      const say = (content: string): boolean =>
        response.write(`data: ${JSON.stringify(chunkOf({ role: "assistant", content }))}\n\n`);
      say(FIRST);
      // It has no end, until the server is killed.
      while (!response.destroyed) {
        await sleep(20);
        say("and ");
      }
    };
  });
  const cli = new Cli(t);
  const local = { type: "openai-compatible", baseURL: provider.baseURL, apiKeyEnv: "LOCAL_KEY" };
  const models = { default: `local/${MODEL}`, offered: [`local/${MODEL}`] };
  writeFileSync(join(cli.home, "holdfast.config.json"), JSON.stringify({ providers: { local }, models }));
  const folder = mkdtempSync(join(tmpdir(), "holdfast-talk-"));
  writeFileSync(join(folder, "talk.js"), talk?.text ?? "");
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  const running = new Set<ChatProcess>();
  t.after(async () => {
    for (const { child } of running) child.kill("SIGKILL");
    await Promise.all([...running].map(({ end }) => end));
    rmSync(folder, { recursive: true, force: true });
  });
  const dataDir = join(cli.home, ".local/share/holdfast/server");
  return {
    cli,
    serve: (port = "0") =>
      cli.serve(["--port", port, "--data-dir", dataDir], { LOCAL_KEY: "of-the-provider" }),
    run: (wrapped, url) => {
      const [command, ...args] = wrapped([process.execPath, `--import=${HOOK}`, join(folder, "talk.js")]);
      const env = {
        ...inherited(),
        PATH: process.env["PATH"],
        HOME: cli.home,
        TERM: "xterm",
        HOLDFAST_URL: url,
      };
      const program = new ChatProcess(command, args, { cwd: folder, env });
      running.add(program);
      void program.end.then(() => running.delete(program));
      return program;
    },
  };
}

/** More events than a step has before its text. */
const EVENTS_MIN = 20;

/** Waits until the server has a part of the answer in its log. */
async function hasSaid({ url }: Running): Promise<void> {
  for (;;) {
    const metrics = await (await fetch(`${url}/metrics`)).text();
    const events = /^holdfast_events_committed_total (?<count>\d+)/m.exec(metrics)?.groups?.["count"];
    if (Number(events) >= EVENTS_MIN) return;
    await sleep(20);
  }
}

const plain: Wrap = ([command = "", ...args]) => [command, ...args];

async function killed(server: Running): Promise<string> {
  server.signal("SIGKILL");
  await server.exit;
  return new URL(server.url).port;
}

test("talk.js in a pipe prints the answer and nothing else, although the server was killed in its middle", async (t) => {
  const { serve, run } = await place(t);
  const server = await serve();
  const program = run(plain, server.url);
  await hasSaid(server);
  await serve(await killed(server));
  const { stdout, stderr, code } = await program.end;
  assert.equal(code, 0, stderr);
  assert.equal(stdout, SECOND);
});

test("talk.js on a terminal takes back what the killed server had said", async (t) => {
  if (!hasScript())
    return t.diagnostic("there is no `script` of util-linux here: the terminal is not tested");
  const { serve, run } = await place(t);
  const server = await serve();
  const program = run(
    (command) => ["script", "-qfec", `exec ${command.join(" ")} 2>/dev/null`, "/dev/null"],
    server.url,
  );
  await program.shows(/This is how it began:/);
  await serve(await killed(server));
  await program.end;
  assert.equal(program.screen.trim(), SECOND);
});

test("talk.js that was killed itself prints the whole answer when it is started again", async (t) => {
  const { serve, run } = await place(t);
  const server = await serve();
  const first = run(plain, server.url);
  await hasSaid(server);
  first.child.kill("SIGKILL");
  await first.end;
  await serve(await killed(server));
  const { stdout, stderr } = await run(plain, server.url).end;
  assert.equal(stdout, SECOND, stderr);
});
