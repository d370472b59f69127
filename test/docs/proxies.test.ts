/**
 * The settings of proxies in docs/OPERATIONS.md, run by the proxies themselves; and the unit and the image, as far as they can be checked without a machine of
 * their own. nginx, Caddy and systemd are Debian's packages; where one is absent its test is skipped.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { CHAT, MODEL } from "../agent/models/providers/formats.ts";
import { begin, frameText, ProviderServer } from "../agent/models/providers/server.ts";
import { Cli, type Running } from "../cli/cli-process.ts";
import { keptPort } from "../kept-port.ts";
import { blocksRunBy } from "./blocks.ts";
import { repository } from "./entry-points.ts";

const NAME = "agents.example.com";
const fixtures = join(repository, "test/transport/fixtures");
/** As long as a command has in test/cli/cli-process.ts, and once more. */
const PATIENCE_MS = 120_000;
const certificate = readFileSync(join(fixtures, "test-cert.pem"));

const PROXIES: Readonly<Record<string, (config: string, port: number, folder: string) => readonly string[]>> =
  {
    nginx: (config, port, folder) => {
      const server = config.replace("listen 443", `listen 127.0.0.1:${port}`);
      const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
        (one) => `${one}_temp_path ${folder}/${one};`,
      );
      const http = `http { access_log off; ${paths.join(" ")}\n${server}\n}`;
      const file = join(folder, "nginx.conf");
      writeFileSync(file, `daemon off; master_process off; pid ${folder}/pid; events {}\n${http}`);
      return ["nginx", "-p", folder, "-e", "stderr", "-c", file];
    },
    caddyfile: (config, port, folder) => {
      const file = join(folder, "Caddyfile");
      const own = "{\n  admin off\n  auto_https disable_redirects\n}\n";
      writeFileSync(file, own + config.replace(NAME, `https://${NAME}:${port}`));
      return ["caddy", "run", "--config", file, "--adapter", "caddyfile"];
    },
  };

for (const { language, text } of blocksRunBy("test/docs/proxies.test.ts")) {
  const program = language === "nginx" ? "nginx" : "caddy";
  const path = `${process.env["PATH"] ?? ""}:/usr/sbin`;
  const isThere = spawnSync(program, ["-v"], { env: { PATH: path } }).error === undefined;
  const skip = isThere ? false : `there is no ${program}: apt-get install ${program}`;

  // A proxy that collects words hands over nothing before the model has ended, which this one does not: the test would wait for ever.
  test(
    `through ${program}, set up as documented, words arrive while the model still writes`,
    { skip, timeout: PATIENCE_MS },
    async (t) => {
      const { promise: arrived, resolve: release } = Promise.withResolvers<void>();
      t.after(() => release());
      const server = await served(t, arrived);
      const folder = mkdtempSync(join(tmpdir(), "holdfast-proxy-"));
      t.after(() => rmSync(folder, { recursive: true, force: true }));
      const port = await keptPort();
      const here = text
        .replace("127.0.0.1:4600", new URL(server.url).host)
        .replaceAll("cert.pem", join(fixtures, "test-cert.pem"))
        .replaceAll(/(?<= )key\.pem/g, join(fixtures, "test-key.pem"));
      const [command = "", ...args] = PROXIES[language]?.(here, port, folder) ?? [];
      const proxy = spawn(command, args, {
        cwd: folder,
        env: { PATH: path, HOME: folder },
        stdio: ["ignore", "ignore", "pipe"],
      });
      await untilItListens(t, proxy, port);

      const words = await ask(port, server.apiKey);
      let said = "";
      while (!said.includes("first words")) said += String((await words.next()).value);
      assert.match(said, /^id: /);
      release();
      for await (const piece of words) said += piece;
      assert.match(said, /last words[^]*data: \[DONE\]\n\n$/);
    },
  );
}

/** A server whose model says the rest of its answer when the first words have arrived: short answers, smaller than any proxy's buffer. */
async function served(t: TestContext, arrived: Promise<void>): Promise<Running> {
  const provider = await ProviderServer.start(t, async (response, { path }) => {
    if (!CHAT.path.test(path)) return void response.writeHead(404).end();
    const frames = CHAT.frames({ text: ["first words ", "last words"] });
    const at = frames.findIndex(({ place }) => place === "text") + 1;
    begin(response);
    for (const { data } of frames.slice(0, at)) response.write(frameText(data));
    await arrived;
    for (const { data } of frames.slice(at)) response.write(frameText(data));
    response.end();
  });
  const cli = new Cli(t);
  const config = join(cli.home, "settings.json");
  const local = { type: "openai-compatible", baseURL: `${provider.origin}/v1` };
  writeFileSync(config, JSON.stringify({ providers: { local }, models: { offered: [`local/${MODEL}`] } }));
  return cli.serve(["--allow-host", NAME, "--config", config]);
}

async function untilItListens(t: TestContext, proxy: ChildProcess, port: number): Promise<void> {
  let said = "";
  proxy.stderr?.setEncoding("utf8").on("data", (text: string) => (said += text));
  const ended = once(proxy, "exit");
  t.after(async () => {
    proxy.kill("SIGKILL");
    await ended;
  });
  for (;;) {
    const isUp = await new Promise<boolean>((resolve) => {
      request(
        {
          port,
          host: "127.0.0.1",
          path: "/health",
          servername: "localhost",
          ca: certificate,
          headers: { host: NAME },
        },
        (response) => {
          response.resume();
          resolve(response.statusCode === 200);
        },
      )
        .on("error", () => resolve(false))
        .end();
    });
    if (isUp) return;
    if (proxy.exitCode !== null) assert.fail(`the proxy ended: ${said}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function ask(port: number, apiKey: string): Promise<AsyncGenerator<string>> {
  const messages = [{ role: "user", content: "Say something" }];
  const body = JSON.stringify({ model: `local/${MODEL}`, stream: true, messages });
  const headers = { host: NAME, authorization: `Bearer ${apiKey}`, "content-type": "application/json" };
  const call = request({
    method: "POST",
    port,
    host: "127.0.0.1",
    path: "/v1/chat/completions",
    servername: "localhost",
    ca: certificate,
    headers,
  });
  call.end(body);
  const response = await new Promise<AsyncIterable<Buffer>>((resolve, reject) => {
    call.on("response", resolve).on("error", reject);
  });
  return (async function* pieces() {
    for await (const piece of response) yield piece.toString("utf8");
  })();
}

const unit = readFileSync(join(repository, "deploy/holdfast.service"), "utf8");

test("the unit of systemd has every setting that the line needs", () => {
  const operations = readFileSync(join(repository, "docs/OPERATIONS.md"), "utf8");
  const needed = operations.matchAll(
    /`((?:Type|KillMode|TimeoutStopSec|Restart|RuntimeDirectory\w*|Environment)=[^`]+)`/g,
  );
  const settings = [...needed].map(([, setting = ""]) => setting);
  assert.ok(settings.length >= 8);
  for (const setting of settings) assert.ok(unit.split("\n").includes(setting), setting);
});

const noSystemd = spawnSync("systemd-analyze", ["--version"]).error !== undefined;

test("systemd reads the unit", { skip: noSystemd ? "there is no systemd-analyze" : false }, (t) => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-unit-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, "holdfast.service");
  writeFileSync(path, unit);
  const { status, stderr } = spawnSync("systemd-analyze", ["verify", "--man=no", path], { encoding: "utf8" });
  assert.equal(status, 0, stderr);
  assert.ok(!stderr.includes("holdfast.service:"), stderr);
});

test("the image sets only variables that a server reads, and its server is the first process", () => {
  const image = readFileSync(join(repository, "Dockerfile"), "utf8");
  const settings = readFileSync(join(repository, "src/cli/settings.ts"), "utf8");
  const set = [...image.matchAll(/\b(HOLDFAST_\w+)=(?!\.)/g)].map(([, name = ""]) => name);
  assert.ok(set.length >= 3);
  for (const name of set) assert.ok(settings.includes(`${name}:`), name);
  assert.match(image, /^CMD \["holdfast", "serve"\]$/m);
  const [usage = ""] = image.split("\n");
  assert.match(usage, / docker run /);
  assert.doesNotMatch(usage, /--init/, "what is first would end with the server, and the line with both");
});
