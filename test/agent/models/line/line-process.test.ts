/** The line as a process: what it keeps, what it shows of its secrets, and how it ends. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { createServer as createSocketServer } from "node:net";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { LineClient } from "../../../../src/agent/models/line/line-client.ts";
import { Line } from "../../../../src/agent/models/line/line-process.ts";
import {
  LINE_DEFAULTS,
  LINE_VERSION,
  type LineSettings,
} from "../../../../src/agent/models/line/line-wire.ts";
import { heldRequests } from "../../../../src/agent/models/line/line-fetch.ts";
import type { Cleanup } from "../../../cleanup.ts";
import { LetGo } from "../../../../src/protocol/let-go.ts";
import { API_KEY, type Act, portOf, ProviderServer } from "../providers/server.ts";
import { testCertificate } from "../../../transport/certificate.ts";
import { askLine, LineRig, until } from "./line-rig.ts";

const SECRET = "5".repeat(64);
const STREAM = { principal: "alice", idempotencyKey: "a" };

/** A line in this process, with bounds of its own. */
async function lineHere(
  t: Cleanup,
  rig: LineRig,
  bounds: Partial<Omit<LineSettings, "socketPath" | "secret">>,
): Promise<{ readonly line: Line; readonly client: LineClient }> {
  const socketPath = join(rig.directory, "here.sock");
  const line = new Line({ ...LINE_DEFAULTS, ...bounds, socketPath, secret: SECRET }, () => undefined);
  await line.listen();
  t.after(() => line.close());
  const client = new LineClient(async () => ({ socketPath, secret: SECRET }));
  t.after(() => client.close());
  return { line, client };
}

/** The body of a call through a line, as the server below the SDK reads it. */
async function ask(
  client: LineClient,
  named: ReturnType<LineRig["named"]>,
  url: string,
  signal?: AbortSignal,
): Promise<Response> {
  const held = await heldRequests(client, named);
  const plain = (): Promise<Response> => assert.fail("the line was not used");
  const headers = { authorization: `Bearer ${API_KEY}`, "content-type": "application/json" };
  const init = { method: "POST", headers, body: '{"asked":"ß"}' };
  const fetch = held?.fetch("target", plain, () => undefined) ?? plain;
  return fetch(url, signal === undefined ? init : { ...init, signal });
}

const MIB = 1024 * 1024;

/** So many MiB, each of its own byte, as fast as they are taken. */
function mebibytes(count: number, sent: { bytes: number }): Act {
  return async (response) => {
    response.writeHead(200, { "content-type": "application/octet-stream" });
    for (let at = 0; at < count; at++) {
      const isTaken = response.write(Buffer.alloc(MIB, at));
      sent.bytes += MIB;
      if (!isTaken) await once(response, "drain");
    }
    response.end();
  };
}

async function read(response: Response): Promise<Buffer> {
  return Buffer.from(await response.arrayBuffer());
}

test("the request arrives as it was given, and a redirect is not followed", async (t) => {
  const provider = await ProviderServer.start(t, (response) => {
    response.writeHead(307, { location: "http://127.0.0.1:9/elsewhere" }).end();
  });
  const rig = new LineRig(t);
  const { client } = await lineHere(t, rig, {});
  const response = await ask(client, rig.named("a"), `${provider.origin}/v1/x?y=1`);
  assert.equal(response.status, 307);
  const [asked] = provider.asked;
  assert.equal(asked?.text, '{"asked":"ß"}');
  assert.equal(asked.path, "/v1/x?y=1");
  assert.equal(asked.headers["authorization"], `Bearer ${API_KEY}`);
});

test("up to the bounds a provider is read at full speed, whatever the reader does", async (t) => {
  const sent = { bytes: 0 };
  const provider = await ProviderServer.start(t, mebibytes(24, sent));
  const rig = new LineRig(t);
  const { client, line } = await lineHere(t, rig, {});
  const slow = await ask(client, rig.named("a"), provider.origin);
  await until(() => line.counts.bytes >= 24 * MIB);
  const again = await read(await ask(client, rig.named("a"), provider.origin));
  assert.equal(again.length, 24 * MIB);
  assert.ok(again.every((byte, at) => byte === Math.floor(at / MIB)));
  await assert.rejects(slow.arrayBuffer());
  assert.equal(provider.asked.length, 1);
});

for (const [what, bounds] of [
  ["one call", { callBytesMax: 4 * MIB }],
  ["all calls", { bytesMax: 4 * MIB }],
] as const)
  test(`beyond the bound of ${what} a call continues as fast as it is read, and cannot be read again`, async (t) => {
    const sent = { bytes: 0 };
    const provider = await ProviderServer.start(t, mebibytes(48, sent));
    const rig = new LineRig(t);
    const { client, line } = await lineHere(t, rig, bounds);
    const response = await ask(client, rig.named("a"), provider.origin);
    await until(() => sent.bytes > 4 * MIB);
    for (let before = -1; before !== sent.bytes; await sleep(300)) before = sent.bytes;
    assert.ok(sent.bytes < 40 * MIB, `${sent.bytes} bytes were taken ahead of the reader`);
    const { nameOf, hostEpoch } = rig.named("a");
    assert.deepEqual(await client.find([nameOf(0)], hostEpoch), [undefined]);
    const whole = await read(response);
    assert.ok(whole.every((byte, at) => byte === Math.floor(at / MIB)));
    assert.equal(whole.length, 48 * MIB);
    await until(() => line.counts.calls === 0);
    assert.equal(line.counts.bytes, 0);
  });

test("D1: a call has one reader: the later host's, from the first byte; the earlier host is closed and its cancel refused", async (t) => {
  const rest = Promise.withResolvers<void>();
  const provider = await ProviderServer.start(t, async (response) => {
    response.writeHead(200).write("data: half of an ev");
    await rest.promise;
    response.end("ent\n\n");
  });
  const rig = new LineRig(t);
  const { client, line } = await lineHere(t, rig, {});
  const earlier = rig.named("a");
  const first = await ask(client, earlier, provider.origin);
  const fate = first.text().then(
    () => "whole",
    () => "closed",
  );
  const second = ask(client, rig.named("a"), provider.origin);
  await until(() => line.counts.reattached === 1);
  await client.say("cancel", [earlier.nameOf(0)], earlier.hostEpoch);
  assert.equal(line.counts.calls, 1);
  rest.resolve();
  assert.equal(await (await second).text(), "data: half of an event\n\n");
  assert.equal(await Promise.race([fate, sleep(5_000, "open")]), "closed");
  assert.equal(provider.asked.length, 1);
});

test("a call without a reader ends after the grace period, and is counted", async (t) => {
  const provider = await ProviderServer.start(t, (response) => {
    response.writeHead(200).write("begun");
  });
  const rig = new LineRig(t);
  const { client, line } = await lineHere(t, rig, { graceMs: 2_000 });
  const gone = new AbortController();
  const response = await ask(client, rig.named("a"), provider.origin, gone.signal);
  gone.abort(new LetGo("closing"));
  await assert.rejects(response.text(), LetGo);
  assert.equal(line.counts.calls, 1);
  await provider.asked[0]?.gone;
  assert.deepEqual(line.counts, { calls: 0, bytes: 0, reattached: 0, expired: 1 });
});

test("a cancel that overtakes its request holds", async (t) => {
  const provider = await ProviderServer.start(t, (response) => void response.end("said"));
  const rig = new LineRig(t);
  const { client } = await lineHere(t, rig, {});
  const named = rig.named("a");
  await client.say("cancel", [named.nameOf(0)], named.hostEpoch);
  await assert.rejects(ask(client, named, provider.origin));
  assert.equal(provider.asked.length, 0);
});

test("who does not know the secret is refused, whatever it asks", async (t) => {
  const rig = new LineRig(t);
  const { socketPath, secret: known } = await rig.ensure();
  const call = { method: "POST", url: "http://127.0.0.1:9/", headers: {}, label: "", stream: STREAM };
  const about = { epoch: 1, name: "a", names: [], word: "cancel", call } as const;
  for (const ask of ["stay", "held", "find", "words", "attach"] as const)
    for (const secret of [{}, { secret: "" }, { secret: SECRET }])
      assert.deepEqual(await askLine(socketPath, { ...about, ...secret, ask }).catch(() => ({})), {}, ask);
  assert.deepEqual(await askLine(socketPath, { ask: "held", secret: known }), { held: [] });
});

test("E4: no secret is in the line's arguments, its environment or a file, but the peer's own; and other users are kept out", async (t) => {
  const provider = await ProviderServer.start(t, (response) => {
    response.writeHead(200).write("plaintext-canary");
  });
  const rig = new LineRig(
    t,
    {},
    { OPENAI_API_KEY: API_KEY, HOLDFAST_HOME_KEY: API_KEY, NO_PROXY: "127.0.0.1" },
  );
  const { socketPath, secret } = await rig.ensure();
  const client = rig.server();
  const stop = new AbortController();
  await ask(client, rig.named("a"), provider.origin, stop.signal);
  const pid = await rig.pid();
  const of = (what: string): string => readFileSync(`/proc/${pid}/${what}`, "latin1");
  assert.equal(
    of("environ").replaceAll(/PWD=[^\0]*\0|_=[^\0]*\0|SHLVL=[^\0]*\0|OLDPWD=?[^\0]*\0/g, ""),
    "NO_PROXY=127.0.0.1\0",
  );
  for (const text of [of("cmdline"), of("environ"), ...rig.files])
    for (const canary of [API_KEY, "plaintext-canary", "asked"]) assert.ok(!text.includes(canary));
  for (const text of [of("cmdline"), of("environ")]) assert.ok(!text.includes(secret));
  assert.match(of("limits"), /Max core file size\s+0\s+0/);
  assert.equal(statSync(socketPath).mode & 0o777, 0o600);
  assert.equal(statSync(dirname(socketPath)).mode & 0o777, 0o700);
  // A session of its own: neither a terminal nor a process group takes it along.
  const [, session] = execFileSync("ps", ["-o", "pid=,sid=", "-p", String(pid)])
    .toString()
    .trim()
    .split(/\s+/);
  assert.equal(session, String(pid));
  stop.abort();
});

test("one line for a data directory: two servers that start at once find the same, and a dead one is replaced", async (t) => {
  const rig = new LineRig(t);
  const [first, second] = await Promise.all([rig.ensure(), rig.ensure()]);
  assert.deepEqual(first, second);
  const pid = await rig.pid();
  process.kill(pid ?? 0, "SIGKILL");
  await until(() => !isAlive(pid));
  const next = await rig.ensure();
  assert.notEqual(next.secret, first.secret);
  assert.notEqual(await rig.pid(), pid);
});

test("a stranger at the socket is not believed", async (t) => {
  const rig = new LineRig(t);
  const { socketPath, secret } = await rig.ensure();
  const pid = await rig.pid();
  process.kill(pid ?? 0, "SIGKILL");
  await until(() => !isAlive(pid));
  execFileSync("rm", ["-f", socketPath]);
  let heard = "";
  const stranger = createSocketServer((socket) => {
    socket.on("data", (bytes) => {
      heard += bytes.toString();
      socket.end(JSON.stringify({ version: LINE_VERSION, proof: secret }));
    });
  });
  await new Promise<void>((resolve) => stranger.listen(socketPath, resolve));
  t.after(() => void stranger.close());
  const next = await rig.ensure();
  assert.notEqual(next.secret, secret);
  assert.ok(heard !== "" && !heard.includes(secret));
});

test("a runtime directory that others may enter is refused", async (t) => {
  const rig = new LineRig(t);
  execFileSync("mkdir", ["-m", "755", join(rig.directory, "holdfast")]);
  await assert.rejects(rig.ensure(), /not a directory of this user alone/);
});

test("it stays while a server is connected, and ends when it has been idle", async (t) => {
  const rig = new LineRig(t, { idleMs: 1_000 });
  const client = rig.server();
  await client.place();
  const pid = await rig.pid();
  await sleep(3_000);
  assert.ok(isAlive(pid));
  client.close();
  await until(() => !isAlive(pid));
});

test("SIGHUP and SIGINT are not for it; SIGTERM ends it when the server has gone", async (t) => {
  const rig = new LineRig(t, { idleMs: 60_000 });
  const client = rig.server();
  await client.place();
  const pid = (await rig.pid()) ?? 0;
  for (const signal of ["SIGHUP", "SIGINT", "SIGTERM"] as const) process.kill(pid, signal);
  await sleep(1_500);
  assert.ok(isAlive(pid));
  client.close();
  await until(() => !isAlive(pid));
});

test("a proxy of the environment is used", async (t) => {
  const seen: string[] = [];
  const proxy = createServer((request, response) => {
    seen.push(request.url ?? "");
    response.end("by proxy");
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  t.after(() => void proxy.close());
  const rig = new LineRig(
    t,
    {},
    { NODE_USE_ENV_PROXY: "1", HTTP_PROXY: `http://127.0.0.1:${portOf(proxy)}` },
  );
  const response = await ask(rig.server(), rig.named("a"), "http://provider.invalid/v1");
  assert.equal(await response.text(), "by proxy");
  assert.deepEqual(seen, ["http://provider.invalid/v1"]);
  proxy.closeAllConnections();
});

test("a provider whose certificate is of the operator's own authority is reached through the line too", async (t) => {
  const provider = createTlsServer(testCertificate, (_, response) => response.end("by its own authority"));
  await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve));
  t.after(() => void provider.close());
  const url = `https://127.0.0.1:${portOf(provider)}/v1`;
  const strict = new LineRig(t);
  await assert.rejects(ask(strict.server(), strict.named("a"), url), { message: "fetch failed" });
  const authority = fileURLToPath(new URL("../../../transport/fixtures/test-cert.pem", import.meta.url));
  const rig = new LineRig(t, {}, { NODE_EXTRA_CA_CERTS: authority });
  assert.equal(await (await ask(rig.server(), rig.named("a"), url)).text(), "by its own authority");
  provider.closeAllConnections();
});

test("a server that starts learns of every call that is held: whose it is, and whether its provider broke it off", async (t) => {
  const rig = new LineRig(t);
  const open = await ProviderServer.start(t, (response) => void response.writeHead(200).write("begins"));
  const broken = await ProviderServer.start(t, (response) => {
    response.writeHead(200).write("begins", () => setImmediate(() => response.destroy()));
  });
  const { client } = await lineHere(t, rig, {});
  assert.deepEqual(await client.held(), [], "there is no line yet");
  const first = await ask(client, rig.named("goes on"), open.origin);
  const second = await ask(client, rig.named("breaks"), broken.origin);
  await assert.rejects(second.text());
  const told = (await client.held()).map(({ stream, isGood }) => ({ stream, isGood }));
  assert.deepEqual(told, [
    { stream: { principal: "alice", idempotencyKey: "goes on" }, isGood: true },
    { stream: { principal: "alice", idempotencyKey: "breaks" }, isGood: false },
  ]);
  await first.body?.cancel();
});

test("a reader that is late has every byte that came before the provider broke off, and then the break", async (t) => {
  const rig = new LineRig(t);
  const provider = await ProviderServer.start(t, (response) => {
    response.writeHead(200).write("begins", () => setImmediate(() => response.destroy()));
  });
  const { client } = await lineHere(t, rig, {});
  await assert.rejects(async () => (await ask(client, rig.named("a"), provider.origin)).text());
  await until(async () => (await client.held())[0]?.isGood === false);
  const reader = (await ask(client, rig.named("a"), provider.origin)).body?.getReader();
  // All has reached this process, and was not read.
  await sleep(50);
  assert.equal(Buffer.from((await reader?.read())?.value ?? []).toString(), "begins");
  await assert.rejects(async () => reader?.read(), { message: "fetch failed" });
});

function isAlive(pid: number | undefined): boolean {
  try {
    return process.kill(pid ?? 0, 0) && !readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z ");
  } catch {
    return false;
  }
}
