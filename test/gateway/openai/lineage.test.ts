/**
 * The lineage: what clients change without meaning anything is the same, everything else is not.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import {
  chain,
  EMPTY_CHAIN,
  levelled,
  lineageOf,
  type LineMessage,
  parseChatRequest,
  splitRequest,
  systemHash,
  toolsHash,
} from "../../../src/gateway/openai/index.ts";

const chainOf = (messages: readonly LineMessage[]): string => lineageOf(messages).whole;

function linesOf(messages: readonly object[]): readonly LineMessage[] {
  return parseChatRequest({ model: "m", messages }).messages;
}

function hashOf(message: object): string {
  const [line] = linesOf([message]);
  assert.ok(line !== undefined);
  return levelled(line);
}

const call = (args: string, id = "call_1", name = "f") => ({
  id,
  type: "function",
  function: { name, arguments: args },
});

test("content is the same as text, as parts, with white space at the ends, and with what clients add", () => {
  const expected = hashOf({ role: "user", content: "Hello you" });
  assert.equal(hashOf({ role: "user", content: [{ type: "text", text: "Hello you" }] }), expected);
  const parts = [
    { type: "text", text: "Hello " },
    { type: "text", text: "you\n", cache_control: { type: "ephemeral" } },
  ];
  assert.equal(hashOf({ role: "user", content: parts, name: "me" }), expected);
  assert.equal(hashOf({ content: "  Hello you", role: "user", cache_control: {} }), expected);
});

test("an assistant message is the same with null, empty, absent and no parts, with and without reasoning", () => {
  const tool_calls = [call('{"a":1,"b":[2]}')];
  const expected = hashOf({ role: "assistant", content: null, tool_calls });
  for (const content of ["", [], [{ type: "text", text: "" }], undefined]) {
    assert.equal(hashOf({ role: "assistant", content, tool_calls }), expected);
  }
  const added = { refusal: null, annotations: [], parsed: null, audio: null, function_call: null };
  assert.equal(hashOf({ role: "assistant", content: null, tool_calls, ...added }), expected);
  assert.equal(hashOf({ role: "assistant", reasoning_content: "hm", tool_calls }), expected);
  assert.equal(hashOf({ role: "assistant", reasoning: "hm", tool_calls }), expected);
});

test("arguments written again, and ids made fit, are the same call", () => {
  const expected = hashOf({ role: "assistant", tool_calls: [call('{"a":1,"b":{"c":[1,2],"d":"x"}}')] });
  const again = call('{ "b": {"d": "x", "c": [1.0, 2]},\n "a": 1 }', "other");
  assert.equal(hashOf({ role: "assistant", tool_calls: [again] }), expected);
  const none = hashOf({ role: "assistant", tool_calls: [call("{}")] });
  assert.equal(hashOf({ role: "assistant", tool_calls: [call("")] }), none);
  const broken = hashOf({ role: "assistant", tool_calls: [call('{"a":')] });
  assert.equal(hashOf({ role: "assistant", tool_calls: [call(' {"a":\n')] }), broken);
});

test("what means something else has another hash", () => {
  const messages: readonly object[] = [
    { role: "user", content: "a" },
    { role: "user", content: "A" },
    { role: "user", content: "" },
    { role: "assistant", content: "a" },
    { role: "assistant", content: null },
    { role: "tool", tool_call_id: "1", content: "a" },
    { role: "assistant", tool_calls: [call("{}")] },
    { role: "assistant", tool_calls: [call("[]")] },
    { role: "assistant", tool_calls: [call('{"a":1}')] },
    { role: "assistant", tool_calls: [call('{"a":"1"}')] },
    { role: "assistant", tool_calls: [call('{"":[["a",1]]}')] },
    { role: "assistant", tool_calls: [call('{"a":{"b":1}}')] },
    { role: "assistant", tool_calls: [call('{"a":[["b",1]]}')] },
    { role: "assistant", tool_calls: [call("{}", "1", "g")] },
    { role: "assistant", tool_calls: [call("{}", "1"), call("{}", "2")] },
    { role: "user", content: [{ type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } }] },
    { role: "user", content: [{ type: "image_url", image_url: { url: "data:image/png;base64,AAAB" } }] },
  ];
  assert.equal(new Set(messages.map(hashOf)).size, messages.length);
});

test("an image is its bytes, however it is written", () => {
  const image = (url: string) => ({ role: "user", content: [{ type: "image_url", image_url: { url } }] });
  const expected = hashOf(image("data:image/png;base64,AAA="));
  assert.equal(hashOf(image("data:image/PNG;charset=x;base64,AAA")), expected);
});

const asked = { role: "assistant", tool_calls: [call("{}", "a"), call("{}", "b")] };
const result = (tool_call_id: string, content: string) => ({ role: "tool", tool_call_id, content });

test("tool results count by the place of their call: order and ids do not matter, swapped results do", () => {
  const expected = chainOf(linesOf([asked, result("a", "1"), result("b", "2")]));
  assert.equal(chainOf(linesOf([asked, result("b", "2"), result("a", "1")])), expected);
  const renamed = { role: "assistant", tool_calls: [call("{}", "x"), call("{}", "y")] };
  assert.equal(chainOf(linesOf([renamed, result("x", "1"), result("y", "2")])), expected);
  assert.equal(chainOf(linesOf([asked, result("a", "1"), result("b", "2"), result("a", "1")])), expected);
  assert.notEqual(chainOf(linesOf([asked, result("a", "2"), result("b", "1")])), expected);
  assert.notEqual(chainOf(linesOf([asked, result("a", "1")])), expected);
  assert.notEqual(chainOf(linesOf([asked, result("a", "1"), result("c", "2")])), expected);
  const first = chainOf(linesOf([asked, result("a", "1")]));
  assert.notEqual(chainOf(linesOf([asked, result("c", "1")])), first);
});

test("a chain is made link by link, and each message and its place count", () => {
  const [one, two] = linesOf([
    { role: "user", content: "1" },
    { role: "assistant", content: "2" },
  ]);
  assert.ok(one !== undefined && two !== undefined);
  const expected = chain(chain(EMPTY_CHAIN, levelled(one)), levelled(two));
  assert.equal(chainOf([one, two]), expected);
  assert.equal(chainOf([]), EMPTY_CHAIN);
  assert.notEqual(chainOf([one]), expected);
  assert.notEqual(chainOf([two, one]), expected);
  assert.notEqual(chainOf([one, one, two]), expected);
});

test("what a session must have seen is the lineage of the history by itself, whatever follows it", () => {
  const said = fc.constantFrom("user", "assistant", "calls", "result a", "result b", "result of nobody");
  const lineOf = (kind: string, at: number): object => {
    if (kind === "user") return { role: "user", content: `${at}` };
    if (kind === "assistant") return { role: "assistant", content: `${at}` };
    if (kind === "calls") return { role: "assistant", tool_calls: [call("{}", "a"), call("{}", "b")] };
    return { role: "tool", tool_call_id: kind.split(" ").at(-1), content: `${at}` };
  };
  fc.assert(
    fc.property(fc.array(said, { minLength: 1, maxLength: 12 }), (kinds) => {
      const messages = linesOf(kinds.map(lineOf));
      const { history } = splitRequest(messages);
      assert.equal(lineageOf(messages).seen, chainOf(history));
      assert.equal(history.length === messages.length, lineageOf(messages).seen === chainOf(messages));
    }),
  );
});

test("a developer's instructions are a system prompt's; tools are the same in any order", () => {
  const system = (role: string) =>
    parseChatRequest({
      model: "m",
      messages: [
        { role, content: "Be kind " },
        { role: "user", content: "x" },
      ],
    }).system;
  assert.equal(systemHash(system("system")), systemHash(system("developer")));
  assert.notEqual(systemHash("Be kind"), systemHash("Be rude"));
  const one = { name: "a", description: "d", parametersJson: '{"type":"object","x":1}', strict: false };
  const two = { name: "b", description: "", parametersJson: "{}", strict: false };
  const expected = toolsHash([one, two]);
  assert.equal(
    toolsHash([two, { ...one, parametersJson: '{"x": 1, "type": "object"}', description: "d " }]),
    expected,
  );
  assert.notEqual(toolsHash([one]), expected);
  assert.notEqual(toolsHash([one, { ...two, strict: true }]), expected);
  assert.notEqual(toolsHash([{ ...one, description: "e" }, two]), expected);
});

/** The same value with the names of all objects in the opposite order. */
function turned(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(turned);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).toReversed();
  return Object.fromEntries(entries.map(([name, inner]) => [name, turned(inner)]));
}

test("whatever the arguments are, writing them again with other order and spaces changes nothing", () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 4 })), (args) => {
      const written = JSON.stringify(args);
      // Through a parser once, as every client does: -0 and the like are gone.
      const again = JSON.stringify(turned(JSON.parse(written)), null, 2);
      const hash = (text: string) => hashOf({ role: "assistant", tool_calls: [call(text)] });
      assert.equal(hash(again), hash(written));
    }),
  );
});

test("however a text is cut into parts, it is the same; whatever other text it is, it is not", () => {
  fc.assert(
    fc.property(fc.string(), fc.nat(), fc.string(), (text, at, other) => {
      const cut = text.length === 0 ? 0 : at % text.length;
      const parts = [text.slice(0, cut), text.slice(cut)].map((piece) => ({ type: "text", text: piece }));
      for (const role of ["user", "assistant"]) {
        assert.equal(hashOf({ role, content: parts }), hashOf({ role, content: text }));
        const isSame = text.trim() === other.trim();
        assert.equal(hashOf({ role, content: other }) === hashOf({ role, content: text }), isSame);
      }
    }),
  );
});

test("changing any one message of a conversation changes its chain", () => {
  const words = fc.array(fc.string(), { minLength: 1, maxLength: 8 });
  const lines = (texts: readonly string[]) =>
    linesOf(texts.map((content, at) => ({ role: at % 2 === 0 ? "user" : "assistant", content })));
  fc.assert(
    fc.property(words, fc.nat(), (texts, at) => {
      const place = at % texts.length;
      const changed = texts.with(place, `${texts[place] ?? ""}!`);
      assert.notEqual(chainOf(lines(changed)), chainOf(lines(texts)));
      assert.equal(chainOf(lines(texts.map((text) => ` ${text}\n`))), chainOf(lines(texts)));
    }),
  );
});
