/** Which tools are offered, and what becomes of a call. */
import assert from "node:assert/strict";
import { create } from "../../src/protocol/message.ts";
import { test } from "node:test";
import { offerOf } from "../../src/agent/tool-plan.ts";
import { ExecKind, RunRequestSchema } from "../../src/protocol/messages.ts";
import { ALL_KINDS } from "./keeping-client.ts";

function offer(
  execKinds: readonly ExecKind[],
  tools: readonly { name: string; parametersJson: string }[] = [],
) {
  return offerOf(create(RunRequestSchema, { execKinds: [...execKinds], tools: [...tools] }));
}

test("a tool is offered when the client can carry out all that it needs", () => {
  const names = (kinds: readonly ExecKind[]): readonly string[] => offer(kinds).tools.map(({ name }) => name);
  assert.deepEqual(names([]), []);
  assert.deepEqual(names([ExecKind.MCP]), [], "a plain chat has no tools of ours");
  assert.deepEqual(names([ExecKind.READ]), ["read", "todo_write", "ask_user"]);
  assert.ok(!names([ExecKind.WRITE]).includes("edit"), "an edit reads, too");
  assert.deepEqual(names(ALL_KINDS), [
    "shell",
    "read",
    "write",
    "edit",
    "delete",
    "ls",
    "glob",
    "grep",
    "subagent",
    "todo_write",
    "ask_user",
  ]);
});

test("every tool's schema is an object that names its arguments", () => {
  for (const { name, parameters, description } of offer(ALL_KINDS).tools) {
    assert.equal(parameters["type"], "object", name);
    assert.ok(typeof parameters["properties"] === "object", name);
    assert.ok(description.length > 10, name);
  }
});

test("a declared tool wins over ours of the same name and comes back as declared", () => {
  const offered = offer(ALL_KINDS, [{ name: "read", parametersJson: '{"type":"object"}' }]);
  assert.equal(offered.tools.filter(({ name }) => name === "read").length, 1);
  assert.deepEqual(offered.plan("read", ""), { kind: "declared", name: "read", server: "", args: "{}" });
});

test("a command is streamed where the client can", () => {
  const shell = (kind: ExecKind) => offer([kind]).plan("shell", '{"command":"ls"}');
  for (const [kind, expected] of [
    [ExecKind.SHELL, "shellArgs"],
    [ExecKind.SHELL_STREAM, "shellStreamArgs"],
  ] as const) {
    const plan = shell(kind);
    assert.equal(plan.kind === "exec" ? plan.message.case : plan.kind, expected);
  }
});

test("E8: a thing to do has a text of one to a thousand characters, and there are a hundred at the most", () => {
  const kindOf = (texts: readonly string[]): string => {
    const todos = texts.map((text, at) => ({ id: String(at), text, status: "pending" }));
    return offer(ALL_KINDS).plan("todo_write", JSON.stringify({ todos })).kind;
  };
  assert.equal(kindOf(["x", "x".repeat(1_000)]), "todos");
  assert.equal(kindOf([""]), "invalid");
  assert.equal(kindOf(["x".repeat(1_001)]), "invalid");
  assert.equal(kindOf(Array.from({ length: 100 }, () => "x")), "todos");
  assert.equal(kindOf(Array.from({ length: 101 }, () => "x")), "invalid");
});

test("wrong arguments are explained, deep ones are refused before they are parsed", () => {
  const offered = offer(ALL_KINDS);
  const why = (tool: string, args: string): string => {
    const planned = offered.plan(tool, args);
    return planned.kind === "invalid" ? planned.why : planned.kind;
  };
  assert.match(why("grep", "{}"), /pattern/u);
  assert.match(why("shell", '{"command":"x","timeout_ms":-1}'), /timeout_ms/u);
  assert.match(why("ls", "["), /not JSON/u);
  assert.match(why("ls", "[".repeat(100) + "]".repeat(100)), /nested deeper/u);
  assert.match(why("rm", "{}"), /There is no tool "rm". There are: shell, read/u);
});

test("G3: a call of a declared tool whose arguments are no JSON does not reach the client: the model is told", () => {
  const offered = offer([ExecKind.MCP], [{ name: "weather", parametersJson: '{"type":"object"}' }]);
  assert.equal(offered.plan("weather", '{"place":"here"}').kind, "declared");
  assert.equal(offered.plan("weather", "").kind, "declared");
  const wrong = offered.plan("weather", '{"place":"he');
  assert.ok(wrong.kind === "invalid" && wrong.why.includes("not JSON"));
});

test("a command's time limit goes to the client, and only when the model has named one", () => {
  const offered = offer(ALL_KINDS);
  const limitOf = (args: string): number | undefined => {
    const planned = offered.plan("shell", args);
    assert.ok(planned.kind === "exec" && planned.message.case === "shellStreamArgs");
    return planned.message.value.timeoutMs;
  };
  assert.equal(limitOf('{"command":"x","timeout_ms":5}'), 5);
  assert.equal(limitOf('{"command":"x"}'), undefined);
});
