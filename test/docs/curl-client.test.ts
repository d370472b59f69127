/**
 * What the documents do with plain curl, run as it stands there against a real server: the second client of
 * `docs/PROTOCOL.md`, and requests to the gateway of the README and of `docs/GATEWAY.md`.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { text } from "node:stream/consumers";
import { COMMAND } from "../command.ts";
import { blocksRunBy } from "./blocks.ts";

function scriptOf(path: string): string {
  return blocksRunBy("test/docs/curl-client.test.ts")
    .filter(({ document }) => document === path)
    .map((block) => block.text)
    .join("\n");
}

interface Line {
  readonly welcomeMessage?: { readonly resumed?: boolean };
  readonly serverChunk?: { readonly eventId: string; readonly end?: string };
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
    assert.equal(Number(serverChunk.eventId), cursor + 1, "without gap or repeat");
    cursor = Number(serverChunk.eventId);
  }
  const last = lines.findLast(({ serverChunk }) => serverChunk !== undefined);
  assert.equal(last?.serverChunk?.end, "END_REASON_COMPLETED");
  assert.deepEqual(
    lines.flatMap(({ nextSeqno }) => nextSeqno ?? []),
    [2],
  );
});

test("the README's request to the gateway is answered to a new user, who has set nothing and has read no API key; cut off and repeated it costs nothing", async (t) => {
  const output = await run(t, scriptOf("README.md"), { HOLDFAST_API_KEY: undefined });
  assert.match(
    output,
    /^x-holdfast-answer: new\r$.*"content":"1 ".*^x-holdfast-answer: (?:attached|replayed)\r$.*"content":"30 "/ms,
  );
  assert.equal(output.match(/"30 "/g)?.length, 1, "the first connection was cut before the end");
});

test("the background response of the gateway's document is generated, read again and continued from", async (t) => {
  const output = await run(t, scriptOf("docs/GATEWAY.md"));
  assert.match(output, /"status":"completed".*"text":"1 2 3 "/);
  assert.match(output, /event: response\.output_item\.added\n.*event: response\.completed\n/s);
  assert.doesNotMatch(output, /event: response\.created/, "it was seen");
  assert.match(output, /"text":"Done\."/);
});

async function run(
  t: TestContext,
  script: string,
  more: Readonly<Record<string, string | undefined>> = {},
): Promise<string> {
  const { url, apiKey, home } = await startServer(t);
  const shell = spawn("bash", ["-c", script], {
    env: { ...process.env, HOME: home, HOLDFAST_URL: url, HOLDFAST_API_KEY: apiKey, ...more },
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

interface Started {
  readonly url: string;
  readonly apiKey: string;
  /** Of the user who has started it. */
  readonly home: string;
}

async function startServer(t: TestContext): Promise<Started> {
  const home = mkdtempSync(join(tmpdir(), "holdfast-curl-"));
  const server = spawn(process.execPath, [COMMAND, "serve", "--port", "0"], {
    cwd: home,
    stdio: ["ignore", "pipe", "inherit"],
    env: {
      ...process.env,
      HOME: home,
      XDG_DATA_HOME: undefined,
      XDG_CONFIG_HOME: undefined,
      HOLDFAST_API_KEY: undefined,
    },
  });
  t.after(async () => {
    const gone = once(server, "exit");
    server.kill("SIGTERM");
    await gone;
    rmSync(home, { recursive: true, force: true });
  });
  let said = "";
  server.stdout.setEncoding("utf8");
  for await (const piece of server.stdout) {
    said += String(piece);
    const url = /listening on (?<url>http:[^\s,]+)/.exec(said)?.groups?.["url"];
    if (url !== undefined && said.includes("  docs ")) {
      const data = /, data in (?<data>.*)$/m.exec(said)?.groups?.["data"] ?? "";
      return { url, apiKey: readFileSync(join(data, "api-key"), "utf8").trim(), home };
    }
  }
  throw new Error(`the server did not start: ${said}`);
}
