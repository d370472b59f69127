import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { LineClient } from "../../../src/agent/models/line/line-client.ts";
import { ProviderCounters } from "../../../src/agent/models/provider-counters.ts";
import { counted } from "../../../src/core/standstill.ts";
import { gatewayMetrics, newGatewayCounters } from "../../../src/gateway/counters.ts";
import { REQUEST_KINDS } from "../../../src/server/http/http-counters.ts";
import { Spending } from "../../../src/server/spending.ts";
import { memoryTableStore } from "../../store/memory-table-store.ts";
import { openStream, putParts, uploadOf } from "./blob-client.ts";
import { ALICE_KEY, ask, bearer, type HttpRig, startHttp, VERSIONS } from "./rig.ts";

async function scrape(rig: HttpRig): Promise<string> {
  const answer = await ask(rig, 1, { path: "/metrics" });
  assert.equal(answer.status, 200);
  assert.match(String(answer.headers["content-type"]), /^text\/plain; version=0\.0\.4/);
  return answer.body.toString();
}

/** The value of one line; the labels as they are written. */
function valueOf(text: string, name: string): number {
  const line = text.split("\n").find((each) => each.startsWith(`${name} `));
  assert.ok(line !== undefined, `${name} is there`);
  return Number(line.slice(name.length));
}

test("every metric is in the operator's table, with its type, and every one in the table exists", async (t) => {
  const rig = await startHttp(t);
  const tables = memoryTableStore({ now: Date.now });
  const text = [
    await scrape(rig),
    gatewayMetrics(newGatewayCounters(), { count: 0, bytes: 0 }, 0),
    new ProviderCounters().metrics(),
    new LineClient(async () => undefined).metrics(),
    (await Spending.open({ tables, now: Date.now, retentionMs: 1, isShared: false })).metrics(),
  ].join("");
  const real = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => `${name} ${type}`);
  const manual = await readFile(new URL("../../../docs/OPERATIONS.md", import.meta.url), "utf8");
  const told = [...manual.matchAll(/^\| `((?:holdfast|process)_\w+)`\s*\| (\w+)/gm)].map(
    ([, name, type]) => `${name} ${type}`,
  );
  assert.deepEqual(told.toSorted(), real.toSorted());
  const kinds = /`kind` is one of ([^.]*)\./.exec(manual)?.[1]?.match(/\w+/g);
  assert.deepEqual(kinds, [...REQUEST_KINDS]);
});

test("what is mounted adds its own lines", async (t) => {
  const extraMetrics = (): string => "# TYPE mounted_things gauge\nmounted_things 7\n";
  const rig = await startHttp(t, { http: { extraMetrics } });
  assert.equal(valueOf(await scrape(rig), "mounted_things"), 7);
});

test("F4: stalls are shown by side and clock: how many were detected, how many resumed, how many there are now", async (t) => {
  const rig = await startHttp(t);
  const { stalls } = rig.server.counters;
  const news = { clock: "unanswered", stuck: "kv 3", stillMs: 30_001, unanswered: [] } as const;
  stalls.server = counted(stalls.server, { kind: "stalled", ...news });
  stalls.client = counted(counted(stalls.client, { kind: "stalled", ...news }), { kind: "resumed", ...news });
  const text = await scrape(rig);
  const values = (labels: string): readonly number[] =>
    ["holdfast_stalls_total", "holdfast_stalls_resumed_total", "holdfast_streams_stalled"].map((name) =>
      valueOf(text, `${name}{${labels}}`),
    );
  assert.deepEqual(values('side="server",clock="unanswered"'), [1, 0, 1]);
  assert.deepEqual(values('side="client",clock="unanswered"'), [1, 1, 0]);
  assert.deepEqual(values('side="server",clock="no_progress"'), [0, 0, 0]);
});

test("what happens is counted", async (t) => {
  const rig = await startHttp(t);
  const owner = await openStream(rig, "counted");
  const bytes = randomBytes(1_000);
  await putParts(rig, 1, owner, uploadOf(owner, bytes));
  await ask(rig, 2, { path: "/health" });
  await ask(rig, 2, { path: "/health", headers: { host: "evil.example" } });
  const headers = { "content-type": "application/proto", ...bearer("wrong") };
  await ask(rig, 1, { method: "POST", path: "/holdfast.v1.StreamService/Append", headers });
  const text = await scrape(rig);
  assert.equal(valueOf(text, 'holdfast_attaches_total{outcome="opened"}'), 1);
  assert.equal(valueOf(text, "holdfast_chunks_committed_total"), 1);
  assert.equal(valueOf(text, "holdfast_events_committed_total"), 1);
  assert.equal(valueOf(text, "holdfast_acks_total"), 1);
  assert.equal(valueOf(text, "holdfast_streams_hosted"), 1);
  assert.ok(valueOf(text, "holdfast_commits_total") >= 2);
  assert.equal(valueOf(text, "holdfast_commit_seconds_count"), valueOf(text, "holdfast_commits_total"));
  assert.ok(valueOf(text, "holdfast_append_seconds_count") > 0);
  assert.equal(
    valueOf(text, 'holdfast_append_bytes_bucket{le="+Inf"}'),
    valueOf(text, "holdfast_append_bytes_count"),
  );
  assert.equal(valueOf(text, "holdfast_blob_received_bytes_total"), 1_000);
  assert.equal(valueOf(text, "holdfast_blob_held_bytes"), 0);
  assert.equal(valueOf(text, 'holdfast_http_requests_total{kind="health",status="200"}'), 1);
  assert.equal(valueOf(text, 'holdfast_http_requests_total{kind="health",status="403"}'), 1);
  assert.equal(valueOf(text, 'holdfast_http_requests_open{kind="metrics"}'), 1);
  assert.equal(valueOf(text, "holdfast_http_foreign_total"), 1);
  assert.equal(valueOf(text, "holdfast_sign_in_failures_total"), 1);
  assert.equal(valueOf(text, 'holdfast_refusals_total{code="unauthenticated"}'), 1);
  assert.ok(valueOf(text, "process_resident_memory_bytes") > 1e6);
});

test("each line is one that Prometheus reads, and a bucket counts what the smaller ones do as well", async (t) => {
  const rig = await startHttp(t);
  const { bounds } = rig.server.counters.commitSeconds;
  const added = [0, ...bounds, 1e9];
  for (const value of added) rig.server.counters.commitSeconds.add(value);
  const text = await scrape(rig);
  assert.ok(text.endsWith("\n"));
  const sample = /^\w+(?:\{\w+="[^"\\]*"(?:,\w+="[^"\\]*")*\})? -?\d\S*$/;
  for (const line of text.trimEnd().split("\n"))
    assert.match(line, line.startsWith("#") ? /^# (?:HELP|TYPE) \w+ \S/ : sample);
  const buckets = [...text.matchAll(/^holdfast_commit_seconds_bucket\{le="(\S+)"\} (\d+)$/gm)];
  assert.deepEqual(
    buckets.map(([, le, count]) => [le, Number(count)]),
    [...bounds.map((le, at) => [String(le), at + 2]), ["+Inf", added.length]],
  );
  assert.equal(valueOf(text, "holdfast_commit_seconds_count"), added.length);
});

test("F5: a store that fails is counted", async (t) => {
  const rig = await startHttp(t);
  const owner = await openStream(rig, "failing");
  await rig.store.close();
  const { error } = await putParts(rig, 1, owner, uploadOf(owner, randomBytes(1)));
  assert.equal(error, "unavailable");
  assert.ok(valueOf(await scrape(rig), "holdfast_store_failures_total") > 0);
});

test("a scrape is the sum of everything before it, not of scrapes", async (t) => {
  const rig = await startHttp(t);
  await openStream(rig, "twice");
  const name = "holdfast_chunks_committed_total";
  assert.deepEqual([valueOf(await scrape(rig), name), valueOf(await scrape(rig), name)], [1, 1]);
});

test("E7: metrics need the API key where others can reach the port", async (t) => {
  const rig = await startHttp(t, { http: { host: "0.0.0.0" } });
  for (const version of [1, 2] as const) {
    assert.equal((await ask(rig, version, { path: "/metrics" })).status, 401);
    assert.equal((await ask(rig, version, { path: "/metrics", headers: bearer(ALICE_KEY) })).status, 200);
    assert.equal((await ask(rig, version, { path: "/health" })).status, 200);
  }
});

test("E7: metrics need the API key when they are asked for by a public name, as through a proxy", async (t) => {
  const rig = await startHttp(t, { http: { allowedHosts: ["holdfast.example"] } });
  for (const version of VERSIONS) {
    const headers = { host: "holdfast.example" };
    assert.equal((await ask(rig, version, { path: "/metrics", headers })).status, 401);
    assert.equal((await ask(rig, version, { path: "/health", headers })).status, 200);
    assert.equal((await ask(rig, version, { path: "/metrics" })).status, 200);
  }
});
