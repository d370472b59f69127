import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { get } from "node:https";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { z } from "zod";
import { ProviderCounters } from "../../src/agent/models/provider-counters.ts";
import { commandLog, savedLines } from "../../src/cli/command-log.ts";
import { SAVED_BY } from "../../src/node/saved.ts";
import { MODEL } from "../agent/models/providers/formats.ts";
import { FLAVOURS, scriptedProvider } from "../agent/models/providers/scripted.ts";
import { Cli, isLetIn } from "./cli-process.ts";

test("serves, says in plain words what it is, and ends in good order on SIGTERM", async (t) => {
  const cli = new Cli(t);
  const server = await cli.serve();
  const health = await fetch(`${server.url}/health`);
  assert.equal(health.status, 200);
  const text = server.stdout();
  const lines = text.trimEnd().split("\n");
  const titles = lines.map((line) => /^ {2}([A-Za-z ]+?) {2,}/.exec(line)?.[1]);
  assert.deepEqual(titles, [undefined, "model", "API key", "try", "page", "docs"]);
  assert.equal(
    lines[0],
    `Holdfast is listening on ${server.url}, process ${server.pid}, data in ${cli.dataDir}`,
  );
  assert.match(text, /^ {2}model +rehearsal\/rehearsal: a script, no AI\. /m);
  const [key = "", ask = "", page = "", docs = ""] = lines.slice(2).map((line) => line.slice(11));
  const asked = spawnSync("bash", ["-c", `${key}; ${ask} --silent --max-time 20`], { encoding: "utf8" });
  assert.match(asked.stdout, /"content":"1 2 3 "/, "what it says to try is answered as it stands");
  assert.equal((await fetch(page)).status, 200);
  assert.match(readFileSync(docs, "utf8"), /^# Start/);
  assert.ok(!text.includes("\u001b"), "no colours into a pipe");
  server.signal("SIGTERM");
  const { code, stderr } = await server.exit;
  assert.equal(code, 0);
  assert.match(stderr, /^SIGTERM: .*\nStopped\. Nothing acknowledged is lost\.\n$/);
  assert.ok(!readdirSync(cli.dataDir).includes("control.json"));
});

test("the first start on loopback makes an API key and keeps it for this user; no pipe gets to see it (E4)", async (t) => {
  const cli = new Cli(t);
  const first = await cli.serve();
  const path = join(cli.dataDir, "api-key");
  const apiKey = readFileSync(path, "utf8").trim();
  assert.match(first.stdout(), new RegExp(`API key +export HOLDFAST_API_KEY="\\$\\(cat ${path}\\)"`));
  assert.ok(!(first.stdout() + first.stderr()).includes(apiKey.slice(-43)));
  for (const file of readdirSync(cli.dataDir)) {
    assert.equal(statSync(join(cli.dataDir, file)).mode & 0o777, 0o600, file);
  }
  assert.equal(statSync(cli.dataDir).mode & 0o777, 0o700);
  assert.equal(await isLetIn(first.url, apiKey), true);
  assert.equal(await isLetIn(first.url, `${apiKey.slice(0, -2)}zz`), false);
  first.signal("SIGINT");
  await first.exit;
  const second = await cli.serve();
  assert.match(second.stdout(), new RegExp(`API key +export HOLDFAST_API_KEY="\\$\\(cat ${path}\\)"`));
  assert.equal(await isLetIn(second.url, apiKey), true);
});

test("E4: no file of the data directory but api-key has the API key", async (t) => {
  const cli = new Cli(t);
  const server = await cli.serve(["--log-level", "trace"], { HOLDFAST_API_KEY: "canary-of-the-environment" });
  const { stdout } = await cli.run(["keys", "create", ...cli.inDataDir]);
  const apiKey = stdout.trim();
  assert.equal(await isLetIn(server.url, apiKey), true);
  assert.equal(await isLetIn(server.url, "canary-of-the-environment"), true);
  server.signal("SIGTERM");
  const { stderr } = await server.exit;
  const files = readdirSync(cli.dataDir).map((name) => readFileSync(join(cli.dataDir, name), "latin1"));
  for (const place of [...files, stderr]) {
    assert.ok(!place.includes(apiKey.slice(-43)));
    assert.ok(!place.includes("canary-of-the-environment"));
  }
});

test("a server whose log nobody reads any more goes on, and ends in good order", async (t) => {
  const cli = new Cli(t);
  const server = await cli.serve(["--log-level", "info"]);
  server.closeStderr();
  for (let times = 0; times < 3; times++) assert.equal((await fetch(`${server.url}/`)).status, 200);
  server.signal("SIGTERM");
  assert.equal((await server.exit).code, 0);
});

test("a second signal ends it at once", async (t) => {
  const cli = new Cli(t);
  const server = await cli.serve();
  // A request without an end keeps the port busy.
  const { hostname, port } = new URL(server.url);
  const socket = connect(Number(port), hostname);
  t.after(() => socket.destroy());
  socket.on("error", () => undefined);
  await new Promise<void>((resolve) => {
    socket.write("POST /holdfast.v1.StreamService/Append HTTP/1.1\r\nhost: localhost\r\n", () => resolve());
  });
  server.signal("SIGINT");
  const ended = new AbortController();
  void server.exit.then(() => ended.abort());
  while (!server.stderr().includes("SIGINT") && !ended.signal.aborted) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  server.signal("SIGINT");
  const { code } = await server.exit;
  assert.equal(code, 130);
});

test("E7: an address that others can reach is refused without an API key, and warned about with one", async (t) => {
  const cli = new Cli(t);
  const refused = await cli.run(["serve", "--port", "0", "--host", "0.0.0.0", ...cli.inDataDir]);
  assert.equal(refused.code, 1);
  assert.match(
    refused.stderr,
    /^holdfast: other machines can reach 0\.0\.0\.0, .* `\S.* keys create --data-dir .*`, .*\n$/,
  );
  assert.equal(refused.stdout, "");
  const fromEnvironment = await cli.serve(["--host", "0.0.0.0"], {
    HOLDFAST_API_KEY: "an-api-key-from-the-environment",
  });
  assert.match(fromEnvironment.stderr(), /"level":40,.*"msg":"http\S+ is not encrypted: .*"\}/);
  assert.match(fromEnvironment.stdout(), /API key +the one in HOLDFAST_API_KEY/);
  assert.match(
    fromEnvironment.stdout(),
    /listening on \S+, on every address of this machine, process \d+, data in /,
  );
  const loopback = /curl (http:\/\/127\.0\.0\.1:\d+)\/v1\/chat/.exec(fromEnvironment.stdout())?.[1] ?? "";
  assert.equal(await isLetIn(loopback, "an-api-key-from-the-environment"), true);
  assert.ok(!fromEnvironment.stdout().includes("an-api-key-from-the-environment"));
  fromEnvironment.signal("SIGTERM");
  await fromEnvironment.exit;
  assert.equal((await cli.run(["keys", "create", ...cli.inDataDir])).code, 0);
  const withKey = await cli.serve(["--host", "0.0.0.0"]);
  assert.match(withKey.stdout(), /API key +export one that you made/);
});

test("with a certificate the port speaks TLS; files that do not fit are told", async (t) => {
  const cli = new Cli(t);
  const fixtures = join(import.meta.dirname, "../transport/fixtures");
  const [cert, key] = [join(fixtures, "test-cert.pem"), join(fixtures, "test-key.pem")];
  const server = await cli.serve(["--tls-cert", cert, "--tls-key", key]);
  assert.match(server.url, /^https:/);
  assert.match(server.stdout(), /curl --insecure https:/);
  const status = await new Promise((resolve, reject) => {
    get(`${server.url}/health`, { ca: readFileSync(cert), servername: "localhost" }, (response) => {
      response.resume();
      resolve(response.statusCode);
    }).on("error", reject);
  });
  assert.equal(status, 200);
  server.signal("SIGTERM");
  await server.exit;
  const swapped = await cli.run([
    "serve",
    "--port",
    "0",
    "--tls-cert",
    key,
    "--tls-key",
    cert,
    ...cli.inDataDir,
  ]);
  assert.equal(swapped.code, 1);
  assert.match(swapped.stderr, /^holdfast: TLS cannot be set up with .*\n$/);
  const absent = await cli.run(["serve", "--tls-cert", "no.pem", "--tls-key", key, ...cli.inDataDir]);
  assert.equal(absent.code, 2);
  assert.match(absent.stderr, /^holdfast: the TLS certificate .*no\.pem cannot be read \(ENOENT\)\n$/);
});

test("a busy port, an address of another machine: one line that says what to do", async (t) => {
  const cli = new Cli(t);
  const busy = createServer();
  t.after(() => busy.close());
  await new Promise<void>((resolve) => busy.listen(0, "127.0.0.1", resolve));
  const address = busy.address();
  const port = String(typeof address === "object" ? address?.port : 0);
  const inUse = await cli.run(["serve", "--port", port, ...cli.inDataDir]);
  assert.deepEqual([inUse.code, inUse.stdout], [1, ""]);
  assert.match(
    inUse.stderr,
    new RegExp(`^holdfast: port ${port} is in use on 127\\.0\\.0\\.1; .*--port\\n$`),
  );
  const foreign = await cli.run(["serve", "--host", "203.0.113.7", "--port", "0", ...cli.inDataDir], {
    HOLDFAST_API_KEY: "an-api-key-from-the-environment",
  });
  assert.equal(foreign.code, 1);
  assert.match(foreign.stderr, /^holdfast: this machine has no address 203\.0\.113\.7; .*--host\n$/);
});

test("a second server on the same data directory is refused with the first one's process and address", async (t) => {
  const cli = new Cli(t);
  const first = await cli.serve();
  const { code, stderr } = await cli.run(["serve", "--port", "0", ...cli.inDataDir]);
  assert.equal(code, 1);
  assert.equal(
    stderr,
    `holdfast: the data directory ${cli.dataDir} is in use by the server at ${first.url} (process ${first.pid}); stop it, or choose another with --data-dir\n`,
  );
  assert.equal((await fetch(`${first.url}/ready`)).status, 200);
  assert.equal((await cli.run(["keys", "list", ...cli.inDataDir])).code, 0);
});

test("a second server names a first one that does not answer as well", async (t) => {
  const cli = new Cli(t);
  const first = await cli.serve();
  first.signal("SIGSTOP");
  const { code, stderr } = await cli.run(["serve", "--port", "0", ...cli.inDataDir]);
  assert.equal(code, 1);
  assert.match(
    stderr,
    new RegExp(`in use by the server at ${first.url} \\(process ${first.pid}\\), which does not answer;`),
  );
});

test("a damaged and a newer database are refused and left as they are", async (t) => {
  const cli = new Cli(t);
  const path = join(cli.dataDir, "holdfast.db");
  mkdirSync(cli.dataDir);
  writeFileSync(path, "this is no database".repeat(1_000));
  const damaged = await cli.run(["serve", "--port", "0", ...cli.inDataDir]);
  assert.equal(damaged.code, 1);
  assert.match(damaged.stderr, /^holdfast: .*holdfast\.db is not a database; nothing was changed\. .*\n$/);
  assert.equal(readFileSync(path, "utf8"), "this is no database".repeat(1_000));

  const newer = new Cli(t);
  await newer.run(["keys", "create", ...newer.inDataDir]);
  const database = new DatabaseSync(join(newer.dataDir, "holdfast.db"));
  database.exec("PRAGMA user_version = 99");
  database.close();
  const before = readFileSync(join(newer.dataDir, "holdfast.db"));
  const refused = await newer.run(["serve", "--port", "0", ...newer.inDataDir]);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /^holdfast: .*newer Holdfast.*\n$/);
  assert.deepEqual(readFileSync(join(newer.dataDir, "holdfast.db")), before);
});

test("a data directory that cannot be made is told with what to do", async (t) => {
  const cli = new Cli(t);
  writeFileSync(join(cli.home, "file"), "");
  const { code, stderr } = await cli.run(["serve", "--data-dir", join(cli.home, "file", "data")]);
  assert.equal(code, 1);
  assert.match(stderr, /^holdfast: the data directory .* cannot be made \(ENOTDIR\); .*--data-dir\n$/);
});

test("without --data-dir the data lies in the user's data directory", async (t) => {
  const cli = new Cli(t);
  assert.equal((await cli.run(["keys", "create"])).code, 0);
  assert.ok(readdirSync(join(cli.home, "share", "holdfast", "server")).includes("holdfast.db"));
});

test("what was saved is one line: JSON in a pipe, in colour for a person at a terminal", async (t) => {
  const cli = new Cli(t);
  const server = await cli.serve();
  const ask = async (): Promise<string | null> => {
    const response = await fetch(`${server.url}/v1/chat/completions`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${server.apiKey}`,
        "content-type": "application/json",
        "idempotency-key": "asked-twice",
      },
      body: JSON.stringify({ model: "rehearsal", messages: [{ role: "user", content: "count to 3" }] }),
    });
    await response.text();
    return response.headers.get("x-holdfast-answer");
  };
  assert.deepEqual([await ask(), await ask()], ["new", "replayed"]);
  server.signal("SIGTERM");
  const [line = ""] = (await server.exit).stderr.split("\n");
  const { saved, msg } = SAVED_LINE.parse(JSON.parse(line));
  assert.deepEqual([saved, msg], ["replayed", "replayed a finished answer: no new model call"]);

  const written: string[] = [];
  const stderr = { isTTY: true, write: (text: string) => written.push(text) };
  const logger = commandLog("warn", { stderr, env: {} });
  const say = savedLines(logger);
  say("attached");
  assert.equal(written.length, 1);
  assert.ok(
    written[0]?.endsWith(" \u001b[32mattached to a running answer: no second one began\u001b[39m\n"),
    written[0],
  );
  savedLines(commandLog("error", { stderr, env: {} }))("attached");
  assert.equal(written.length, 1, "a log of errors alone has no others");

  // How a provider's answer was continued, as its counters tell it.
  const counters = new ProviderCounters({
    onContinued: (how) => {
      const one = SAVED_BY[how];
      if (one !== undefined) say(one);
    },
  });
  counters.continued("acme", "replay");
  counters.continued("acme", "prefill");
  counters.watch("acme").onResumed?.(1);
  counters.continued("acme", "restart");
  say("resumed");
  assert.deepEqual(
    written.slice(1).map((text) => text.split("\u001b[32m")[1]?.split("\u001b")[0]),
    [
      "continued an answer that the end of its server had cut off: no new model call",
      "continued after the provider broke off",
      "continued after the provider broke off",
      "sent the rest of an answer: no second one began",
    ],
    "a step that begins anew saves nothing",
  );

  // Everything else of the log is one line, too, which no value of it can steer.
  logger.warn({ status: 401, error: "invalid\u001b[2J" }, "request refused");
  logger.error({ err: new Error("a bug") }, "a failed assertion");
  const shown = written.slice(-2).map((text) => text.replaceAll("\u001b", "ESC"));
  assert.match(
    shown[0] ?? "",
    /ESC\[33mrequest refusedESC\[39mESC\[2m status=401 error=invalid\\u\{1b\}\[2JESC\[22m\n$/,
  );
  assert.match(shown[1] ?? "", /ESC\[31ma failed assertion.*\nError: a bug\n +at /);
});

test("an answer whose provider broke off continues, and the log says so in one line; on level info another one says where it broke", async (t) => {
  const cli = new Cli(t);
  const provider = await scriptedProvider(t, FLAVOURS.vllm, { breaks: [{ behind: 8, how: "fin" }] });
  const local = { ...provider.config, apiKeyEnv: "LOCAL_KEY" };
  const config = { providers: { local }, models: { offered: [`local/${MODEL}`] } };
  writeFileSync(join(cli.home, "holdfast.config.json"), JSON.stringify(config));
  const server = await cli.serve(["--log-level", "info"], { LOCAL_KEY: "of-the-provider" });
  const response = await fetch(`${server.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${server.apiKey}`, "content-type": "application/json" },
    body: JSON.stringify({ model: `local/${MODEL}`, messages: [{ role: "user", content: "Go on" }] }),
  });
  assert.match(await response.text(), /before the night, as 風 does in spring\./);
  assert.equal(provider.calls.length, 2);
  server.signal("SIGTERM");
  const log = (await server.exit).stderr.split("\n");
  const lines = log.filter((line) => line.includes('"saved"'));
  assert.equal(lines.length, 1);
  const { saved, msg } = SAVED_LINE.parse(JSON.parse(lines[0] ?? ""));
  assert.deepEqual([saved, msg], ["continued", "continued after the provider broke off"]);
  const broken = log.filter((line) => line.includes("a provider's answer broke"));
  assert.equal(broken.length, 1);
  assert.match(broken[0] ?? "", /"provider":"local","phase":"text","cause":"(?:eof|reset)"/);
});

const SAVED_LINE = z.object({ saved: z.string(), msg: z.string() });
