/** A `Request` and its `Response` as an exchange: what its handler is told of who reads it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Exchange } from "../../src/transport/node/exchange.ts";
import { mountable } from "../../src/transport/node/mountable.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

/** A request in the hands of its handler, and what that one is told. */
async function handed(request = new Request("http://localhost/path?a=b")) {
  const told: string[] = [];
  const handled = Promise.withResolvers<Exchange>();
  const mounted = mountable({
    onBug: (bug) => assert.fail(String(bug)),
    handle: (exchange) => {
      exchange.listen({
        received: (piece) => void told.push(`received ${new TextDecoder().decode(piece)}`),
        ended: () => {
          told.push("ended");
          handled.resolve(exchange);
        },
        drained: () => void told.push("drained"),
        closed: (isWhole) => void told.push(isWhole ? "whole" : "broken"),
      });
    },
  });
  const responding = mounted.fetch(request, { remoteAddress: "192.0.2.1" });
  // Looked at by each test.
  responding.catch(() => undefined);
  return { mounted, told, responding, exchange: await handled.promise };
}

test("a body goes in, a response comes out, and it is whole once its reader has taken the end", async () => {
  const { exchange, responding, told, mounted } = await handed(
    new Request("https://name.example/path?a=b", { method: "POST", body: "hello" }),
  );
  const { isSecure, method, path, query, host, remoteAddress } = exchange;
  assert.deepEqual(
    [isSecure, method, path, query, host, remoteAddress],
    [true, "POST", "/path", "a=b", "name.example", "192.0.2.1"],
  );
  exchange.respond(201, { "x-one": "1", "set-cookie": ["a=1", "b=2"] });
  exchange.write(bytes("he"));
  exchange.end(bytes("llo"));
  const response = await responding;
  assert.deepEqual([response.status, response.headers.getSetCookie()], [201, ["a=1", "b=2"]]);
  assert.deepEqual([told, mounted.openCount], [["received hello", "ended"], 1], "nobody has read it yet");
  assert.equal(await response.text(), "hello");
  assert.deepEqual([told.at(-1), mounted.openCount], ["whole", 0]);
});

test("F2: what its reader has not asked for waits, and counts", async () => {
  const { exchange, responding, told } = await handed();
  exchange.respond(200, {});
  assert.equal(exchange.write(bytes("12345")), 5);
  assert.equal(exchange.write(bytes("678")), 8);
  const reader = (await responding).body?.getReader();
  await reader?.read();
  assert.ok(!told.includes("drained"));
  await reader?.read();
  assert.ok(told.includes("drained"));
  const reading = reader?.read();
  // The reader waits by now, so nothing is left behind.
  await Promise.resolve();
  assert.equal(exchange.write(bytes("9")), 0);
  await reading;
  await reader?.cancel();
  assert.deepEqual(told, ["ended", "drained", "broken"]);
  assert.equal(exchange.write(bytes("more")), 0);
});

test("a response that is broken off never looks whole, and a request that is given up is told", async () => {
  const first = await handed();
  first.exchange.respond(200, {});
  first.exchange.write(bytes("half"));
  const text = first.responding.then((response) => response.text());
  first.exchange.destroy();
  await assert.rejects(text, { code: "connection_lost" });
  assert.deepEqual(first.told, ["ended", "broken"]);

  const second = await handed();
  second.exchange.destroy();
  await assert.rejects(second.responding, { code: "connection_lost" });

  const gone = new AbortController();
  const third = await handed(new Request("http://localhost/", { signal: gone.signal }));
  gone.abort();
  await assert.rejects(third.responding, { code: "connection_lost" });
  assert.deepEqual(third.told, ["ended", "broken"]);
});

test("a client that is gone is noticed before its request is handed over, and while its response is read", async () => {
  const told: string[] = [];
  const mounted = mountable({
    onBug: (bug) => assert.fail(String(bug)),
    handle: (exchange) => {
      const noted = (what: string) => () => void told.push(what);
      const closed = (isWhole: boolean): void => void told.push(isWhole ? "whole" : "broken");
      exchange.listen({
        received: noted("received"),
        ended: noted("ended"),
        drained: noted("drained"),
        closed,
      });
      exchange.respond(200, {});
      exchange.write(bytes("half"));
    },
  });
  const early = mounted.fetch(new Request("http://localhost/", { signal: AbortSignal.abort() }));
  await assert.rejects(early, { code: "connection_lost" });
  assert.deepEqual([told, mounted.openCount], [["broken"], 0]);

  const gone = new AbortController();
  const late = await mounted.fetch(new Request("http://localhost/", { signal: gone.signal }));
  const text = late.text();
  gone.abort();
  await assert.rejects(text, { code: "connection_lost" });
  assert.deepEqual([told.at(-1), mounted.openCount], ["broken", 0]);
});

test("closing hangs up on what is under way when its time is over", async () => {
  const { exchange, responding, mounted } = await handed();
  exchange.respond(200, {});
  exchange.write(bytes("half"));
  const text = responding.then((response) => response.text());
  text.catch(() => undefined);
  await mounted.close(0);
  await assert.rejects(text, { code: "connection_lost" });
  await mounted.close(0);
});
