/**
 * A server beside a collector of OpenTelemetry: which spans and metrics it sends, how they hang together, over a restart too, and what is not in them.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { setTimeout } from "node:timers/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { z } from "zod";
import { connect, type RunningServer, serve, tool } from "../../src/node/index.ts";
import { thisMachine } from "../../src/node/machine.ts";
import { serverLog } from "../../src/node/server-log.ts";
import { Cli } from "../cli/cli-process.ts";
import { keptPort } from "../kept-port.ts";

const ATTRIBUTE = z.object({ key: z.string(), value: z.record(z.string(), z.unknown()) });
const SPAN = z.object({
  traceId: z.string().regex(/^[0-9a-f]{32}$/),
  spanId: z.string().regex(/^[0-9a-f]{16}$/),
  parentSpanId: z.string().optional(),
  name: z.string(),
  kind: z.number(),
  startTimeUnixNano: z.string().regex(/^\d{19}$/),
  endTimeUnixNano: z.string().regex(/^\d{19}$/),
  attributes: z.array(ATTRIBUTE),
  links: z.array(z.object({ traceId: z.string(), spanId: z.string() })).optional(),
});
const TRACES = z.object({
  resourceSpans: z.array(z.object({ scopeSpans: z.array(z.object({ spans: z.array(SPAN) })) })),
});
const METRICS = z.object({
  resourceMetrics: z.array(
    z.object({ scopeMetrics: z.array(z.object({ metrics: z.array(z.object({ name: z.string() })) })) }),
  ),
});
const CALL = z.looseObject({ id: z.string(), function: z.looseObject({ name: z.string() }) });
const MESSAGE = z.looseObject({ tool_calls: z.array(CALL).optional() });
const ANSWER = z.object({ choices: z.tuple([z.looseObject({ message: MESSAGE })]) });
type Sent = z.infer<typeof SPAN>;

interface Collector {
  readonly url: string;
  readonly spans: Sent[];
  readonly metrics: Set<string>;
  readonly bodies: string[];
}

async function collector(t: TestContext): Promise<Collector> {
  const [spans, metrics, bodies]: [Sent[], Set<string>, string[]] = [[], new Set(), []];
  const take = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await text(request);
    response.end("{}");
    bodies.push(body);
    if (request.url === "/v1/traces") {
      const { resourceSpans } = TRACES.parse(JSON.parse(body));
      spans.push(...resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((one) => one.spans)));
      return;
    }
    const { resourceMetrics } = METRICS.parse(JSON.parse(body));
    const scopes = resourceMetrics.flatMap(({ scopeMetrics }) => scopeMetrics);
    for (const { name } of scopes.flatMap((one) => one.metrics)) metrics.add(name);
  };
  const server = createServer((request, response) => void take(request, response)).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const address = server.address();
  const port = typeof address === "object" ? (address?.port ?? 0) : 0;
  return { url: `http://127.0.0.1:${port}`, spans, metrics, bodies };
}

function started(data: string, endpoint: string): Promise<RunningServer> {
  const own = thisMachine();
  const env = {
    HOME: data,
    HOLDFAST_HOME_KEY: Buffer.alloc(32, 7).toString("base64url"),
    OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
  };
  const machine = { ...own, env };
  return serve({ data: join(data, "server"), port: 0, machine, logger: serverLog("silent") });
}

async function ask(
  app: RunningServer,
  key: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<string | null> {
  const response = await fetch(`${app.baseUrl}/chat/completions`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${app.apiKey ?? ""}`,
      "content-type": "application/json",
      "idempotency-key": key,
      ...headers,
    },
    body: JSON.stringify({ model: "rehearsal", messages: [{ role: "user", content: "say canarywords" }] }),
  });
  assert.match(await response.text(), /canarywords/);
  return response.headers.get("x-holdfast-answer");
}

const named = (spans: readonly Sent[], name: string): Sent =>
  spans.find((span) => span.name === name) ??
  assert.fail(`no ${name} in ${spans.map((span) => span.name).join(", ")}`);

const attribute = ({ attributes }: Sent, key: string): unknown =>
  Object.values(attributes.find((one) => one.key === key)?.value ?? {})[0];

test("a request, the run of its turn and the model's call are one trace, which a restarted server adds to", async (t) => {
  const { url, spans, metrics, bodies } = await collector(t);
  const data = mkdtempSync(join(tmpdir(), "holdfast-telemetry-"));
  t.after(() => rmSync(data, { recursive: true, force: true }));
  const first = await started(data, url);
  assert.equal(await ask(first, "traced"), "new");
  await first.close();
  const request = named(spans, "POST chat");
  const run = named(spans, "invoke_agent holdfast");
  const call = named(spans, "chat rehearsal");
  assert.deepEqual([run.traceId, call.traceId], [request.traceId, request.traceId]);
  assert.deepEqual(
    [request.parentSpanId, run.parentSpanId, call.parentSpanId],
    [undefined, request.spanId, run.spanId],
  );
  assert.deepEqual([request.kind, run.kind, call.kind], [2, 1, 3]);
  assert.equal(attribute(request, "http.response.status_code"), "200");
  assert.equal(attribute(call, "gen_ai.provider.name"), "rehearsal");
  assert.ok(Number(attribute(call, "gen_ai.usage.output_tokens")) > 0);
  assert.deepEqual(metrics, new Set(["gen_ai.client.operation.duration", "gen_ai.client.token.usage"]));

  spans.length = 0;
  const second = await started(data, url);
  assert.equal(await ask(second, "traced"), "replayed");
  await second.close();
  const again = named(spans, "POST chat");
  assert.equal(again.traceId, request.traceId, "the same stream is the same trace");
  assert.equal(attribute(again, "holdfast.answer"), "replayed");
  assert.ok(!bodies.join("").includes("canarywords"), "E4: nothing that was said is sent");
});

test("a server killed in the middle of an answer and the one that continues it add to one trace", async (t) => {
  const { url, spans } = await collector(t);
  const cli = new Cli(t, { hasLine: true });
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: url };
  const first = await cli.serve([], env);
  const question = "count to 240 every 50 ms";
  const request = (signal?: AbortSignal): RequestInit => ({
    method: "POST",
    headers: {
      authorization: `Bearer ${first.apiKey}`,
      "content-type": "application/json",
      "idempotency-key": "killed",
    },
    body: JSON.stringify({
      model: "rehearsal",
      stream: true,
      messages: [{ role: "user", content: question }],
    }),
    signal: signal ?? null,
  });
  const cut = new AbortController();
  const answer = await fetch(`${first.url}/v1/chat/completions`, request(cut.signal));
  assert.equal((await answer.body?.getReader().read())?.done, false);
  cut.abort();
  // The run has not ended, so of this process the collector gets the request alone.
  while (spans.length === 0) await setTimeout(50);
  first.signal("SIGKILL");
  await first.exit;
  const before = spans.splice(0);
  assert.deepEqual(
    before.map(({ name }) => name),
    ["POST chat"],
  );

  const second = await cli.serve([], env);
  const again = await fetch(`${second.url}/v1/chat/completions`, request());
  assert.match(again.headers.get("x-holdfast-answer") ?? "", /^(?:attached|replayed)$/);
  assert.match(await again.text(), /"240 ?"[^]*\[DONE\]/);
  second.signal("SIGTERM");
  await second.exit;
  const run = named(spans, "invoke_agent holdfast");
  assert.equal(named(spans, "chat rehearsal").parentSpanId, run.spanId);
  assert.deepEqual(new Set(spans.map(({ traceId }) => traceId)), new Set([before[0]?.traceId]));
});

test("a client's own trace has the run in it, and a link to the stream's; a tool is a span below the run", async (t) => {
  const { url, spans } = await collector(t);
  const data = mkdtempSync(join(tmpdir(), "holdfast-telemetry-"));
  t.after(() => rmSync(data, { recursive: true, force: true }));
  const app = await started(data, url);
  const [traceId, spanId] = ["0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"];
  await ask(app, "theirs", { traceparent: `00-${traceId}-${spanId}-01` });
  const holdfast = await connect(app.url, {
    apiKey: app.apiKey,
    directory: join(data, "client"),
    homeKey: new Uint8Array(32).fill(7),
    tools: {
      weather: tool("Weather", { city: z.string() }, async ({ city }, { progress }) => {
        progress("looking out of the window");
        await setTimeout(150);
        return `sunny in ${city}`;
      }),
    },
  });
  const turn = await holdfast.conversation("trip").send("What is the weather in Oslo?");
  assert.equal((await turn.ended).reason, "completed");
  await holdfast.close();
  await app.close();
  const request = named(spans, "POST chat");
  assert.deepEqual([request.traceId, request.parentSpanId], [traceId, spanId]);
  const [link] = request.links ?? [];
  assert.notEqual(link?.traceId ?? traceId, traceId);
  const run = spans.find((span) => span.name === "invoke_agent holdfast" && span.traceId === traceId);
  assert.equal(run?.parentSpanId, request.spanId);
  const weather = named(spans, "execute_tool weather");
  const tookNs = BigInt(weather.endTimeUnixNano) - BigInt(weather.startTimeUnixNano);
  assert.ok(tookNs >= 100_000_000n, "it lasts until its result, not until its first line");
  const other = spans.find((span) => span.spanId === weather.parentSpanId);
  assert.equal(other?.name, "invoke_agent holdfast");
  assert.equal(
    spans.filter((span) => span.name === "chat rehearsal" && span.parentSpanId === other?.spanId).length,
    2,
  );
});

test("a tool that was asked for before a restart and answered behind it is one span, below the run that got its result", async (t) => {
  const { url, spans } = await collector(t);
  const data = mkdtempSync(join(tmpdir(), "holdfast-telemetry-"));
  t.after(() => rmSync(data, { recursive: true, force: true }));
  const user = { role: "user", content: 'call first {"city":"Oslo"}\nthen\ncall second {"city":"Rome"}' };
  const tools = ["first", "second"].map((name) => ({
    type: "function",
    function: { name, parameters: { type: "object", properties: { city: { type: "string" } } } },
  }));
  const messages: unknown[] = [user];
  for (const tool of ["first", "second", undefined]) {
    spans.length = 0;
    const app = await started(data, url);
    const response = await fetch(`${app.baseUrl}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${app.apiKey ?? ""}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "rehearsal", messages, tools }),
    });
    const { choices } = ANSWER.parse(await response.json());
    await app.close();
    const [{ message }] = choices;
    assert.equal(message.tool_calls?.[0]?.function.name, tool);
    const answered = spans.filter(({ name }) => name.startsWith("execute_tool"));
    const asked = ["first", "second", undefined].indexOf(tool) - 1;
    const before = asked < 0 ? [] : [`execute_tool ${tools[asked]?.function.name ?? ""}`];
    assert.deepEqual(
      answered.map(({ name }) => name),
      before,
    );
    for (const { traceId, parentSpanId } of answered) {
      const run = named(spans, "invoke_agent holdfast");
      assert.deepEqual([traceId, parentSpanId], [run.traceId, run.spanId]);
    }
    messages.push(message, { role: "tool", tool_call_id: message.tool_calls?.[0]?.id, content: "mild" });
  }
});

test("a command of holdfast chat, which ends with a piece of its own stream, is a span", async (t) => {
  const { url, spans } = await collector(t);
  const data = mkdtempSync(join(tmpdir(), "holdfast-telemetry-"));
  t.after(() => rmSync(data, { recursive: true, force: true }));
  const app = await started(data, url);
  const chat = ["chat", "-p", "shell echo hello", "--allow", "shell", "--url", app.url];
  const { code, stderr } = await new Cli(t).run(chat, { HOLDFAST_API_KEY: app.apiKey ?? "" });
  assert.equal(code, 0, stderr);
  await app.close();
  assert.equal(named(spans, "execute_tool shell").parentSpanId, named(spans, "invoke_agent holdfast").spanId);
});

test("a collector that is away costs its spans and nothing else", async (t) => {
  const data = mkdtempSync(join(tmpdir(), "holdfast-telemetry-"));
  t.after(() => rmSync(data, { recursive: true, force: true }));
  const app = await started(data, `http://127.0.0.1:${await keptPort()}`);
  assert.equal(await ask(app, "alone"), "new");
  await app.close();
});
