/**
 * The server that `holdfast chat` finds or starts: real processes, real sockets.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { askServer } from "../../src/cli/control-client.ts";
import { ensureServer } from "../../src/cli/local-server.ts";
import { stopServer } from "./background-server.ts";
import { Cli, isLetIn } from "./cli-process.ts";

function dataDirOf(t: TestContext): string {
  const home = mkdtempSync(join(tmpdir(), "holdfast-local-"));
  const dataDir = join(home, "data");
  t.after(async () => {
    await stopServer(dataDir);
    rmSync(home, { recursive: true, force: true });
  });
  return dataDir;
}

function start(dataDir: string, news: string[] = []) {
  const env = { PATH: process.env["PATH"], HOME: join(dataDir, "..") };
  const onStart = (): void => void news.push("start");
  const onNotice = (notice: string): void => void news.push(notice);
  return ensureServer({ dataDir, config: undefined, env, cwd: tmpdir(), onStart, onNotice });
}

test("without a server one is started, and the next one to ask finds it", async (t) => {
  const dataDir = dataDirOf(t);
  const news: string[] = [];
  const first = await start(dataDir, news);
  assert.match(first.url, /^http:\/\/127\.0\.0\.1:\d+$/);
  assert.ok(await isLetIn(first.url, readFileSync(join(dataDir, "api-key"), "utf8").trim()));
  const second = await start(dataDir, news);
  assert.deepEqual(second, first);
  assert.deepEqual(news, ["start"]);
  assert.equal(statSync(join(dataDir, "serve.log")).mode & 0o777, 0o600);
});

test("two that ask at the same time get the same server", async (t) => {
  const dataDir = dataDirOf(t);
  const [one, other] = await Promise.all([start(dataDir), start(dataDir)]);
  assert.equal(one.url, other.url);
});

test("a server that was killed comes back on its port, where its streams are looked for", async (t) => {
  const dataDir = dataDirOf(t);
  let { url } = await start(dataDir);
  const urls = [url];
  do {
    await stopServer(dataDir);
    assert.equal(await askServer(dataDir), undefined);
    ({ url } = await start(dataDir));
    urls.push(url);
    // Meanwhile somebody else may have got the port; not every time.
  } while (url !== urls.at(-2) && urls.length < 4);
  assert.equal(url, urls.at(-2), urls.join(" "));
});

test("its usual port is somebody else's: it takes another", async (t) => {
  const dataDir = dataDirOf(t);
  const taken = createServer().listen(0, "127.0.0.1");
  t.after(() => taken.close());
  await once(taken, "listening");
  const address = taken.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  writeFileSync(join(dataDir, "port"), `${port}\n`);
  const { url } = await start(dataDir);
  assert.notEqual(new URL(url).port, String(port));
});

test("a server that cannot start says why, with its own words", async (t) => {
  const dataDir = dataDirOf(t);
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  writeFileSync(join(dataDir, "holdfast.db"), "not a database, and long enough to be looked at ".repeat(100));
  await assert.rejects(start(dataDir), /could not be started:\n[^]*holdfast\.db/);
});

test("--exit-when-idle: a server that nobody needs ends by itself, in order", async (t) => {
  const cli = new Cli(t);
  const server = await cli.serve(["--exit-when-idle", "0.2"]);
  const { code, stderr } = await server.exit;
  assert.equal(code, 0);
  assert.match(stderr, /^Idle: /m);
  assert.match(stderr, /Nothing acknowledged is lost/);
});

test("--exit-when-idle takes seconds and nothing else", async (t) => {
  const cli = new Cli(t);
  const { code, stderr } = await cli.run(["serve", "--exit-when-idle", "soon"]);
  assert.equal(code, 2);
  assert.match(stderr, /--exit-when-idle must be a number of seconds above 0/);
});
