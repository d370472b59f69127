/** A server that stops: all that it waits for shares one deadline, which is handed on from part to part. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { serve } from "../../src/node/index.ts";
import { serverLog } from "../../src/node/server-log.ts";
import { takeDown } from "../../src/node/take-down.ts";
import { portOf } from "../agent/models/providers/server.ts";

interface Taken {
  /** How long each wait takes, on the test's clock. */
  readonly callsMs: number;
  readonly requestsMs: number;
  readonly storeMs: number;
  readonly drainMs: number | undefined;
}

/** What each part of a server was given, in the order in which they were taken down. */
async function givenTo({ callsMs, requestsMs, storeMs, drainMs }: Taken): Promise<readonly unknown[]> {
  let nowMs = 1_000_000;
  const given: unknown[] = [];
  await takeDown(
    {
      http: {
        close: async ({ drain, drainMs: waitMs } = {}) => {
          await drain?.();
          assert.ok(typeof waitMs === "function");
          given.push(["requests", waitMs()]);
          nowMs += Math.min(requestsMs, waitMs());
        },
      },
      lasting: {
        shutdown: () => assert.fail("the port has done it"),
        close: async () => {
          given.push("store");
          nowMs += storeMs;
        },
      },
      ground: { close: async () => void given.push("gateway") },
      line: { close: () => void given.push("line") },
      telemetry: { close: async (waitMs) => void given.push(["traces", waitMs]) },
    },
    {
      drainMs,
      drain: async (ms) => {
        given.push(["calls", ms]);
        nowMs += Math.min(callsMs, ms);
      },
      now: () => nowMs,
    },
  );
  return given;
}

test("what a stopping server waits for shares one deadline, a second behind the time of its model calls: each wait gets what is left", async () => {
  const parts = (calls: number, requests: number, traces: number): readonly unknown[] => [
    ["calls", calls],
    ["requests", requests],
    "store",
    "gateway",
    "line",
    ["traces", traces],
  ];
  const nothing = { callsMs: 0, requestsMs: 0, storeMs: 0 };
  const endless = { callsMs: Infinity, requestsMs: Infinity, storeMs: 0 };
  assert.deepEqual(await givenTo({ ...nothing, drainMs: 8_000 }), parts(8_000, 5_000, 5_000));
  assert.deepEqual(await givenTo({ ...endless, drainMs: 8_000 }), parts(8_000, 1_000, 0));
  assert.deepEqual(
    await givenTo({ callsMs: 7_500, requestsMs: 300, storeMs: 200, drainMs: 8_000 }),
    parts(8_000, 1_500, 1_000),
  );
  assert.deepEqual(await givenTo({ ...endless, storeMs: 4_000, drainMs: 0 }), parts(0, 1_000, 0));
  assert.deepEqual(await givenTo({ ...endless, drainMs: undefined }), parts(0, 5_000, 0));
});

test("a collector of traces that does not answer is asked once when the server stops, and waited for no longer than the deadline", async (t) => {
  const asked: (string | undefined)[] = [];
  const silent = createServer(({ url }) => void asked.push(url)).listen(0, "127.0.0.1");
  await once(silent, "listening");
  t.after(() => {
    silent.closeAllConnections();
    silent.close();
  });
  const home = mkdtempSync(join(tmpdir(), "hf-td-"));
  t.after(() => rmSync(home, { recursive: true, force: true }));
  const env = {
    HOLDFAST_HOME_KEY: Buffer.alloc(32, 7).toString("base64url"),
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${portOf(silent)}`,
  };
  const server = await serve({
    data: join(home, "data"),
    port: 0,
    machine: { env, home, platform: process.platform, now: Date.now },
    logger: serverLog("silent"),
    onNotice: () => undefined,
  });
  const answer = await fetch(`${server.baseUrl}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${server.apiKey ?? ""}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "rehearsal", messages: [{ role: "user", content: "say Hello." }] }),
  });
  assert.match(await answer.text(), /Hello/);
  await server.close({ drainMs: 0 });
  // Its metrics would have been next, once it had been waited for in vain.
  assert.deepEqual(asked, ["/v1/traces"]);
});
