import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { ExecKind, type ToolDefinition } from "../../src/protocol/index.ts";
import { declaredName, mayBeOf } from "../../src/tools/declared-tools.ts";
import { testServer } from "./programs/mcp-tools.ts";
import { inline, outcome, type Request, request, type Result, rig, Run } from "./rig.ts";

const call = (name: string, args: unknown, server = ""): Request => ({
  case: "mcpArgs",
  value: { name, server, argsJson: inline(JSON.stringify(args)) },
});

function success(result: Result): { texts: string[]; types: string[]; isError: boolean; json: string } {
  assert(
    result.case === "mcpResult" && result.value.result.case === "success",
    JSON.stringify(result.value?.result.case),
  );
  const { content, isError, structuredJson } = result.value.result.value;
  const texts = content.map((part) => Buffer.from(part.content?.content.value ?? []).toString());
  const json = Buffer.from(structuredJson?.content.value ?? []).toString();
  return { texts, types: content.map(({ mediaType }) => mediaType), isError, json };
}

const names = (definitions: readonly ToolDefinition[]) => definitions.map(({ name }) => name).toSorted();

/** Over HTTP, one transport per request. */
async function httpServer(t: TestContext): Promise<string> {
  const http = createServer((incoming, outgoing) => {
    if (incoming.headers["x-secret"] !== "open") {
      outgoing.writeHead(401).end();
      return;
    }
    const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true });
    void testServer()
      .connect(transport)
      .then(() => transport.handleRequest(incoming, outgoing));
  });
  http.listen(0, "127.0.0.1");
  await once(http, "listening");
  t.after(() => {
    http.closeAllConnections();
    http.close();
  });
  const address = http.address();
  assert(typeof address === "object" && address !== null);
  return `http://127.0.0.1:${address.port}/mcp`;
}

const STDIO = { command: process.execPath, args: [join(import.meta.dirname, "programs/mcp-stdio.ts")] };
const MCP_NAMES = ["test__add", "test__die", "test__fail", "test__hang", "test_odd_name_2fce7969"];

test("an MCP server on standard input and output: its tools, results, failures, death (C1: unknown) and return", async (t) => {
  const mcp = { test: STDIO, gone: { command: "no-such-program-here" } };
  const { tools, perform } = await rig(t, { config: { mcp } });
  assert.deepEqual(names(tools.definitions), MCP_NAMES);
  assert(tools.kinds.includes(ExecKind.MCP));
  assert.match(
    tools.notices.join("\n"),
    /the MCP server "gone" cannot be reached.*its tools are not offered/,
  );
  const add = tools.definitions.find(({ name }) => name === "test__add");
  assert.deepEqual([add?.server, add?.description, add?.repeatable], ["test", "Adds two numbers.", false]);
  assert.deepEqual(success(await perform(call("test__add", { a: 1, b: 2 }, "test"))), {
    texts: ["3"],
    types: [""],
    isError: false,
    json: '{"sum":3}',
  });
  assert.deepEqual(success(await perform(call("test_odd_name_2fce7969", {}))).types, ["image/png"]);
  const failed = success(await perform(call("test__fail", {})));
  assert.deepEqual([failed.isError, failed.texts], [true, ["it broke"]]);
  outcome(await perform(call("test__none", {})), "notFound");
  outcome(await perform(call("test__add", [1])), "error");
  const run = new Run();
  const hanging = perform(call("test__hang", {}), run);
  run.controller.abort();
  outcome(await hanging, "aborted");
  outcome(await perform(call("test__die", {})), "unknown");
  assert.deepEqual(
    success(await perform(call("test__add", { a: 2, b: 2 }))).texts,
    ["4"],
    "the next call starts it again",
  );
});

test("an MCP server over HTTP, with headers; one that refuses is told", async (t) => {
  const url = await httpServer(t);
  const mcp = { test: { url, headers: { "x-secret": "open" } }, closed: { url } };
  const { tools, perform } = await rig(t, { config: { mcp } });
  assert.deepEqual(names(tools.definitions), MCP_NAMES);
  assert.match(tools.notices.join("\n"), /the MCP server "closed" cannot be reached/);
  assert.deepEqual(success(await perform(call("test__add", { a: 20, b: 3 }))).texts, ["23"]);
});

test("function tools are declared, asked about and called with parsed arguments", async (t) => {
  const seen: unknown[] = [];
  const functions = {
    greet: {
      description: "Greets.",
      parameters: { type: "object", properties: { name: { type: "string" } } },
      repeatable: true,
      policy: "allow",
      run: (args: unknown) => {
        seen.push(args);
        return Promise.resolve("hello");
      },
    },
    read: { description: "", parameters: {}, run: () => Promise.resolve("") },
    report: {
      description: "",
      parameters: {},
      run: () => Promise.resolve({ json: { n: 1 }, isError: true }),
    },
    broken: { description: "", parameters: {}, run: () => Promise.reject(new Error("no luck")) },
    stuck: { description: "", parameters: {}, run: () => new Promise<string>(() => undefined) },
  } as const;
  const { tools, perform } = await rig(t, { functions, config: { approvals: {} } });
  assert.deepEqual(names(tools.definitions), ["broken", "greet", "read", "report", "stuck"]);
  assert.deepEqual(tools.policy(request(call("greet", {}))), { repeatable: true, needsApproval: false });
  assert.equal(tools.policy(request(call("read", {}))).needsApproval, true, "a name is no kind");
  assert.deepEqual(tools.policy(request(call("report", {}))), { repeatable: false, needsApproval: true });
  assert.deepEqual(success(await perform(call("greet", { name: "you" }))).texts, ["hello"]);
  assert.deepEqual(seen, [{ name: "you" }]);
  const report = success(await perform(call("report", {})));
  assert.deepEqual([report.isError, report.json, report.texts], [true, '{"n":1}', []]);
  assert.equal(outcome(await perform(call("broken", {})), "error")["message"], "no luck");
  const bad: Request = { case: "mcpArgs", value: { name: "greet", argsJson: inline("{") } };
  assert.match(String(outcome(await perform(bad), "error")["message"]), /no JSON/);
  const run = new Run();
  const stuck = perform(call("stuck", {}), run);
  run.controller.abort();
  outcome(await stuck, "aborted");
  await assert.rejects(rig(t, { functions: { "bad name": functions.greet } }), { code: "EINVAL" });
});

test("names of declared tools are valid, short and unique", () => {
  assert.equal(declaredName("files", "read", new Set()), "files__read");
  assert.match(declaredName("my server", "read.file", new Set()), /^my_server_read_file_[0-9a-f]{8}$/);
  const clash = declaredName("files", "read", new Set(["files__read"]));
  assert.match(clash, /^files_read_[0-9a-f]{8}$/);
  const long = declaredName("s".repeat(40), "t".repeat(40), new Set());
  assert.match(long, /^[a-zA-Z0-9_-]{64}$/);
});

test("C7: a name means one tool of one server, whichever other servers there are", () => {
  const parts = ["a", "b", "_", "__", "a_", "_a", "a__b", "b__a", "a b", "x".repeat(60), "é"];
  const pairs = parts.flatMap((server) => parts.map((tool) => ({ server, tool })));
  const called = pairs.map(({ server, tool }) => declaredName(server, tool, new Set()));
  assert.equal(new Set(called).size, called.length);
  for (const name of called) assert.match(name, /^[a-zA-Z0-9_-]{1,64}$/);
  for (const [at, { server }] of pairs.entries()) assert(mayBeOf(server, called[at] ?? ""), server);
  assert.equal(declaredName("a", "b__c", new Set()), "a__b__c");
  assert.match(declaredName("a__b", "c", new Set()), /^a_b_c_[0-9a-f]{8}$/);
  assert.equal(mayBeOf("a__b", "a__b__c"), false);
});

test("C7: a server or a function that is called like one of our tools is not allowed with it, only denied", async (t) => {
  const functions = { write: { description: "", parameters: {}, run: () => Promise.resolve("") } };
  const { tools } = await rig(t, {
    functions,
    config: {
      approvals: { shell: "allow", write: "allow", delete: "deny", mcp: "deny" },
      mcp: { shell: STDIO, delete: STDIO },
    },
  });
  const offered = names(tools.definitions);
  const shell = offered.find((name) => name.startsWith("shell__"));
  assert(shell !== undefined && offered.some((name) => name.startsWith("delete__")));
  const exec = (name: string, server = "") =>
    request({ case: "mcpArgs", value: { name, server, argsJson: inline("{}") } });
  assert.equal(tools.policy(exec(shell, "shell")).needsApproval, true);
  assert.match((await tools.approve(exec(shell, "shell"), new Run())).reason ?? "", /is denied/u);
  // Not configured as a function: it would ask.
  assert.match((await tools.approve(exec("write"), new Run())).reason ?? "", /needs an approval/u);
  assert.equal(tools.policy(request({ case: "shellArgs", value: { command: "ls" } })).needsApproval, false);
});

test("only what is there is offered, and subagents go to their hook", async (t) => {
  const plain = await rig(t, { config: { shell: { enabled: false } } });
  assert.deepEqual(
    plain.tools.kinds.toSorted((a, b) => a - b),
    [ExecKind.WRITE, ExecKind.DELETE, ExecKind.GREP, ExecKind.READ, ExecKind.LS, ExecKind.GLOB],
  );
  const exec = request({ case: "shellArgs", value: { command: "true" } });
  assert.equal(plain.tools.policy(exec).needsApproval, false);
  const thrown = await plain.tools.run(exec, new Run());
  assert(Buffer.from(thrown).toString("latin1").includes("does not offer"));
  const body = new Uint8Array([1, 2, 3]);
  const withChild = await rig(t, { subagents: { run: () => Promise.resolve(body) } });
  assert(withChild.tools.kinds.includes(ExecKind.SUBAGENT));
  const child = request({ case: "subagentArgs", value: { description: "look" } });
  assert.equal(withChild.tools.policy(child).repeatable, true);
  assert.deepEqual(await withChild.tools.run(child, new Run()), body);
  await withChild.tools.close();
  outcome(await withChild.perform({ case: "readArgs", value: { path: "a" } }), "aborted");
});
