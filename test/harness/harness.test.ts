/**
 * The harness as its users run it: against a server of its own (`npm run harness -- --own`), against one that runs
 * (`npm run harness -- --url http://127.0.0.1:4600 --api-key $HOLDFAST_API_KEY`), and against one that begins everything anew.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createServer } from "node:net";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { z } from "zod";
import { portOf } from "../agent/models/providers/server.ts";
import { Cli } from "../cli/cli-process.ts";
import { inherited } from "../inherited.ts";

const MAIN = join(import.meta.dirname, "main.ts");
const PATIENCE_MS = 240_000;

const REPORT = z.array(
  z.object({
    flow: z.string(),
    outcome: z.enum(["ok", "failed", "skipped"]),
    counts: z.record(z.string(), z.number()).optional(),
    providerCalls: z.number().optional(),
    problems: z.array(z.string()),
  }),
);

interface Run {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function harness(t: TestContext, ...args: readonly string[]): Promise<Run> {
  const { HOLDFAST_API_KEY: _, ...env } = { ...process.env, ...inherited() };
  const options = { env: { ...env, NODE_TEST_CONTEXT: undefined }, timeout: PATIENCE_MS, signal: t.signal };
  return new Promise((resolve) => {
    execFile(process.execPath, [MAIN, ...args], options, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    );
  });
}

test("every flow reuses what it can, and the provider is called for what is new alone, also over a kill", async (t) => {
  const { code, stdout, stderr } = await harness(t, "--own", "--json");
  assert.equal(code, 0, stdout + stderr);
  const costs = REPORT.parse(JSON.parse(stdout)).map(({ flow, outcome, providerCalls }) => [
    flow,
    outcome,
    providerCalls,
  ]);
  assert.deepEqual(costs, [
    ["one tool", "ok", 2],
    ["parallel tools", "ok", 2],
    ["results out of order", "ok", 2],
    ["retry", "ok", 2],
    ["cut", "ok", 1],
    ["kill", "ok", 2],
    ["next turn", "ok", 2],
    ["two at once", "ok", 4],
  ]);
});

test("against a server that runs the flows are the same; what cannot be killed is said, and is no failure", async (t) => {
  const { url, apiKey } = await new Cli(t).serve();
  const { code, stdout, stderr } = await harness(t, "--url", `${url}/v1`, "--api-key", apiKey);
  assert.equal(code, 0, stdout + stderr);
  assert.match(stdout, /^ok +one tool +turns continued 1, begun anew 1, provider calls 2$/m);
  assert.match(stdout, /^ok +retry +turns continued 1, replayed 1, begun anew 1, provider calls 2$/m);
  assert.match(
    stdout,
    /^skipped +kill +there is no way to kill the server: give --kill-pid or --kill-command/m,
  );
});

test("a gateway that begins anew instead of reusing fails, by name and with exit code 1", async (t) => {
  const { url, apiKey } = await new Cli(t).serve([], { HOLDFAST_SESSION_REUSE: "0" });
  const { code, stdout } = await harness(t, "--url", url, "--api-key", apiKey, "--flow", "one tool");
  assert.equal(code, 1, stdout);
  assert.match(
    stdout,
    /^failed +one tool +begun anew 2, provider calls 2\n +the results began a stream anew: /m,
  );
});

test("a wrong URL, API key, model, flow or option is said with what to do, and exit code 2", async (t) => {
  const { url, apiKey } = await new Cli(t).serve();
  const wrong: readonly (readonly [RegExp, ...string[]])[] = [
    [
      /^harness: nothing answers at http:\/\/127\.0\.0\.1:\d+ \(ECONNREFUSED\); is the server running/,
      "--url",
      await closedPort(),
      "--api-key",
      apiKey,
    ],
    [/^harness: the API key is not accepted; give one with --api-key/, "--url", url, "--api-key", "wrong"],
    [
      /^harness: there is no model x\/y; choose one with --model: rehearsal/,
      "--url",
      url,
      "--api-key",
      apiKey,
      "--model",
      "x/y",
    ],
    [/^the API key is missing: give --api-key/, "--url", url],
    [/^--url is no URL of HTTP/, "--url", "localhost", "--api-key", apiKey],
    [/^there is no flow "none"/, "--flow", "none"],
    [/^--own and --url exclude each other/, "--own", "--url", url],
  ];
  for (const [message, ...args] of wrong) {
    const { code, stderr } = await harness(t, ...args);
    assert.match(stderr, message);
    assert.equal(code, 2, args.join(" "));
  }
});

/** Where a server was a moment ago. */
async function closedPort(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const port = portOf(server);
  await new Promise((resolve) => server.close(resolve));
  return `http://127.0.0.1:${port}`;
}
