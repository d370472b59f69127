/**
 * What the documents do with plain curl, run as it stands there against a real server: the second client of
 * `docs/PROTOCOL.md`, and the README's request to the gateway.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { text } from "node:stream/consumers";
import { blocksRunBy } from "./blocks.ts";
import { repository } from "./entry-points.ts";

function scriptOf(path: string): string {
  return blocksRunBy("test/docs/curl-client.test.ts")
    .filter(({ document }) => document === path)
    .map((block) => block.text)
    .join("\n");
}

interface Line {
  readonly welcomeMessage?: { readonly resumed?: boolean };
  readonly serverChunk?: { readonly eventId: string; readonly covers?: number; readonly end?: string };
  readonly nextSeqno?: number;
}

test("B1, B4: the curl client of the documents gets every event once over a break, and its close acknowledged", async (t) => {
  const output = await run(t, scriptOf("docs/PROTOCOL.md"));
  const lines = output.trim().split("\n").map(parse);

  const welcomes = lines.flatMap(({ welcomeMessage }) => welcomeMessage ?? []);
  assert.deepEqual(
    welcomes.map(({ resumed }) => resumed ?? false),
    [false, true],
  );
  let cursor = 0;
  for (const { serverChunk } of lines) {
    if (serverChunk === undefined) continue;
    assert.equal(Number(serverChunk.eventId) - (serverChunk.covers ?? 1), cursor, "without gap or repeat");
    cursor = Number(serverChunk.eventId);
  }
  const last = lines.findLast(({ serverChunk }) => serverChunk !== undefined);
  assert.equal(last?.serverChunk?.end, "END_REASON_COMPLETED");
  assert.deepEqual(
    lines.flatMap(({ nextSeqno }) => nextSeqno ?? []),
    [2],
  );
});

test("the README's request to the gateway is answered", async (t) => {
  const answer: unknown = JSON.parse(await run(t, scriptOf("README.md")));
  assert.match(JSON.stringify(answer), /"content":"1 2 3 "/);
});

async function run(t: TestContext, script: string): Promise<string> {
  const { url, apiKey } = await startServer(t);
  const shell = spawn("bash", ["-c", script], {
    env: { ...process.env, HOLDFAST_URL: url, HOLDFAST_API_KEY: apiKey },
    stdio: ["ignore", "pipe", "ignore"],
    timeout: 60_000,
  });
  const [output] = await Promise.all([text(shell.stdout), once(shell, "exit")]);
  return output;
}

function parse(line: string): Line {
  const parsed: unknown = JSON.parse(line);
  assert.ok(isLine(parsed), line);
  return parsed;
}

/** What is in it, the test looks at. */
function isLine(value: unknown): value is Line {
  return typeof value === "object" && value !== null;
}

async function startServer(t: TestContext): Promise<{ readonly url: string; readonly apiKey: string }> {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-curl-"));
  const main = join(repository, "src/cli/main.ts");
  const server = spawn(process.execPath, [main, "serve", "--port", "0", "--data-dir", directory], {
    stdio: ["ignore", "pipe", "inherit"],
    // Its home key is nobody's: none is left behind in the user's configuration.
    env: { ...process.env, HOLDFAST_HOME_KEY: Buffer.alloc(32, 5).toString("base64url") },
  });
  t.after(async () => {
    const gone = once(server, "exit");
    server.kill("SIGTERM");
    await gone;
    rmSync(directory, { recursive: true, force: true });
  });
  let said = "";
  server.stdout.setEncoding("utf8");
  for await (const piece of server.stdout) {
    said += String(piece);
    const url = /listening on (?<url>http:\S+)/.exec(said)?.groups?.["url"];
    if (url !== undefined && said.includes("stop")) {
      return { url, apiKey: readFileSync(join(directory, "api-key"), "utf8").trim() };
    }
  }
  throw new Error(`the server did not start: ${said}`);
}
