import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type RequestListener, type ServerResponse } from "node:http";
import { type TestContext, test } from "node:test";
import { httpFetch } from "../../../../src/agent/models/upstream/http-fetch.ts";

/** A provider on loopback; its address. */
async function provider(t: TestContext, listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  assert.ok(address !== null && typeof address === "object");
  return `http://127.0.0.1:${address.port}/v1`;
}

const aborted = (reason: unknown) => (error: unknown) => error === reason;

test("method, headers and body arrive as they were given; status, headers and body return", async (t) => {
  const url = await provider(t, (request, response) => {
    const { "x-own": own, "accept-encoding": encoding, "content-length": length } = request.headers;
    let sent = "";
    request.setEncoding("utf8");
    request.on("data", (text: string) => (sent += text));
    request.on("end", () => {
      response.writeHead(429, { "retry-after": "7", "set-cookie": ["a=1", "b=2"] });
      response.end(JSON.stringify([request.method, own, encoding, length, sent]));
    });
  });
  for (const headers of [{ "x-own": "1" }, new Headers({ "X-Own": "1" })]) {
    const response = await httpFetch(new URL(url), { method: "POST", headers, body: "søk" });
    assert.deepEqual([response.status, response.headers.get("retry-after")], [429, "7"]);
    assert.deepEqual(await response.json(), ["POST", "1", "identity", "4", "søk"]);
  }
  const empty = await provider(t, (_, response) => response.writeHead(204).end());
  const { status, body } = await httpFetch(empty);
  assert.deepEqual([status, body], [204, null]);
  await assert.rejects(httpFetch(url, { method: "POST", body: new FormData() }), TypeError);
});

test("no connection is said with the system's code, as the runtime's fetch says it", async (t) => {
  const url = await provider(t, () => undefined);
  const gone = url.replace(/:\d+\//, ":1/");
  await assert.rejects(httpFetch(gone), (error: unknown) => {
    assert.ok(error instanceof TypeError && error.cause instanceof Error && "code" in error.cause);
    assert.deepEqual([error.message, error.cause.code], ["fetch failed", "ECONNREFUSED"]);
    return true;
  });
});

test("G4: a signal ends the request before its answer and within it", async (t) => {
  const hungUp: string[] = [];
  const url = await provider(t, (request, response) => {
    request.socket.once("close", () => hungUp.push(request.url ?? ""));
    if (request.url === "/v1/within") response.write("north");
  });
  const before = new AbortController();
  const waiting = httpFetch(`${url}/before`, { signal: before.signal });
  setImmediate(() => before.abort("stopped"));
  await assert.rejects(waiting, aborted("stopped"));
  await assert.rejects(httpFetch(url, { signal: before.signal }), aborted("stopped"));

  const within = new AbortController();
  const { body } = await httpFetch(`${url}/within`, { signal: within.signal });
  const reader = body?.getReader() ?? assert.fail();
  assert.equal(String(Buffer.from((await reader.read()).value ?? [])), "north");
  within.abort("stopped");
  await assert.rejects(reader.read(), aborted("stopped"));

  const left = await httpFetch(`${url}/within`);
  await left.body?.cancel();
  while (hungUp.filter((path) => path === "/v1/within").length < 2) await new Promise(setImmediate);
});

test("a body that breaks is an error behind every byte that came, also for a reader that is behind", async (t) => {
  let answer: ServerResponse | undefined;
  const url = await provider(t, (_, response) => {
    answer = response;
    response.write("north");
  });
  const { body } = await httpFetch(url);
  const reader = body?.getReader() ?? assert.fail();
  const first = await reader.read();
  answer?.write(" by ");
  const second = await reader.read();
  answer?.write("north-west", () => answer?.destroy());
  const third = await reader.read();
  const read = [first, second, third].map(({ value }) => String(Buffer.from(value ?? [])));
  assert.equal(read.join(""), "north by north-west");
  await assert.rejects(reader.read(), TypeError);
});

test("F2: a reader that is behind stops the provider", async (t) => {
  const bytes = Buffer.alloc(64 * 1024);
  let isBlocked = false;
  let written = 0;
  const url = await provider(t, (_, response) => {
    const write = (): void => {
      for (isBlocked = false; !isBlocked && written < 64 * 1024 * 1024; written += bytes.length)
        isBlocked = !response.write(bytes);
      if (!isBlocked) response.end();
    };
    response.on("drain", write);
    write();
  });
  const { body } = await httpFetch(url);
  const reader = body?.getReader() ?? assert.fail();
  await reader.read();
  let before = -1;
  for (let quiet = 0; quiet < 20; before = written) {
    quiet = written === before ? quiet + 1 : 0;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  assert.ok(isBlocked && written < 32 * 1024 * 1024, `${written} bytes were taken`);
  reader.releaseLock();
  const pieces: readonly Uint8Array[] = await Array.fromAsync(body ?? []);
  const rest = pieces.reduce((sum, { length }) => sum + length, 0);
  assert.ok(rest > 32 * 1024 * 1024);
});
