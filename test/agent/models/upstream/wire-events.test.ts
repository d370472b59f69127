import assert from "node:assert/strict";
import { test } from "node:test";
import type { Dialect } from "../../../../src/agent/models/dialect.ts";
import { type Meaning, wireEventOf } from "../../../../src/agent/models/upstream/wire-events.ts";
import { SseSplitter } from "../../../../src/agent/models/upstream/sse-events.ts";
import { WIRES } from "../providers/wires.ts";

const dataOf = (event: unknown): string => (typeof event === "string" ? event : JSON.stringify(event));

function meaningIn(dialect: Dialect, data: string): Meaning | undefined {
  return wireEventOf(dialect, data)?.meaning;
}

function meaning(dialect: Dialect, event: unknown): Meaning {
  return meaningIn(dialect, dataOf(event)) ?? assert.fail(`not read: ${dataOf(event)}`);
}

for (const { type, answer, begun, calling, thought, calledHalf, finished, overloaded } of WIRES) {
  test(`${type}: thoughts, text, arguments, the finish and errors are told apart`, () => {
    assert.equal(meaning(type, answer[begun - 1]).content, "text");
    assert.equal(meaning(type, calling[thought - 1]).content, "thinking");
    assert.equal(meaning(type, calling[calledHalf - 1]).content, "arguments");
    const finishes = answer.map((event) => meaning(type, event).isFinish === true);
    assert.deepEqual(
      finishes.map((is, at) => (is ? at : -1)).filter((at) => at !== -1),
      [finished - 1],
    );
    assert.notEqual(meaning(type, overloaded).error, undefined);
    assert.equal(meaningIn(type, '{"half an obj'), undefined);
    assert.deepEqual(meaningIn(type, ""), { isPing: true });
  });
}

test("an empty reason is no finish: some servers say one with every piece", () => {
  const chat = { choices: [{ delta: { content: "north" }, finish_reason: "" }] };
  assert.deepEqual(meaningIn("openai-compatible", JSON.stringify(chat)), { content: "text" });
  const google = { candidates: [{ content: { parts: [{ text: "north" }] }, finishReason: "" }] };
  assert.deepEqual(meaningIn("google", JSON.stringify(google)), { content: "text" });
  const anthropic = { type: "message_delta", delta: { stop_reason: "" } };
  assert.deepEqual(meaningIn("anthropic", JSON.stringify(anthropic)), {});
});

test("tokens are taken from wherever a provider tells of them", () => {
  for (const { type, answer } of WIRES) {
    if (type === "openai-compatible") continue;
    const seen = answer.map((event) => meaning(type, event).tokens ?? {});
    const input = seen.findLast((tokens) => tokens.input !== undefined)?.input;
    const output = seen.findLast((tokens) => tokens.output !== undefined)?.output;
    assert.deepEqual({ input, output }, { input: 9, output: 2 }, type);
  }
  const usage = { choices: [], usage: { prompt_tokens: 5, completion_tokens: 6 } };
  assert.deepEqual(meaning("openai-compatible", usage).tokens, { input: 5, output: 6 });
});

const BODY = [
  'data: {"a":"é😀"}\n\n',
  ": a comment\n\n",
  'event: x\r\ndata: {"b":1}\r\n\r\n',
  "data: one\ndata:two\n\n",
  'id: 7\rdata: {"c":2}\r\r',
  "data: [DONE]\n\n",
].join("");
const DATA = ['{"a":"é😀"}', "", '{"b":1}', "one\ntwo", '{"c":2}', "[DONE]"];

test("events are the same wherever the network cuts their bytes, and none is passed on in part", () => {
  const bytes = new TextEncoder().encode(BODY);
  for (let size = 1; size <= bytes.length; size++) {
    const splitter = new SseSplitter();
    const events = [];
    let text = "";
    for (let at = 0; at < bytes.length; at += size) {
      for (const event of splitter.push(bytes.subarray(at, at + size))) {
        text += event.text;
        assert.ok(BODY.startsWith(text));
        if (event.bytes !== undefined) assert.equal(new TextDecoder().decode(event.bytes), event.text);
        if (event.text.trim() !== "") events.push(event.data);
      }
    }
    assert.deepEqual(events, DATA, `pieces of ${size}`);
    assert.equal(text, BODY);
  }
});

test("an event that comes alone is given as the bytes that came, and any other as its text", () => {
  const [event, half] = [Buffer.from('data: {"a":"é"}\n\n'), Buffer.from("é").subarray(0, 1)];
  const splitter = new SseSplitter();
  const bytesOf = (bytes: Uint8Array): unknown => splitter.push(bytes).map((given) => given.bytes);
  assert.deepEqual(bytesOf(event), [event]);
  assert.deepEqual(bytesOf(Buffer.concat([event, event])), [undefined, undefined]);
  // Half a character behind it is not lost, and the event that it belongs to is not alone.
  assert.deepEqual(bytesOf(Buffer.concat([event, half])), [undefined]);
  const [broken] = splitter.push(event);
  assert.equal(broken?.bytes, undefined);
  assert.ok(broken?.text.endsWith(event.toString()));
  assert.deepEqual(bytesOf(event), [event]);
});

test("a byte-order mark before the first event is left out", () => {
  const splitter = new SseSplitter();
  const events = [
    ...splitter.push(Buffer.from("\uFEFFdata: 1\n\n")),
    ...splitter.push(Buffer.from("data: \uFEFF2\n\n")),
  ];
  assert.deepEqual(
    events.map(({ data }) => data),
    ["1", "\uFEFF2"],
  );
});

test("a long event costs its length, however many pieces it comes in", (t) => {
  const exec = t.mock.method(RegExp.prototype, "exec");
  const splitter = new SseSplitter();
  const piece = new TextEncoder().encode("x".repeat(256));
  const PIECES = 1_000;
  for (let count = 0; count < PIECES; count++) assert.deepEqual(splitter.push(piece), []);
  const searched = exec.mock.calls.reduce((sum, { arguments: [text] }) => sum + text.length, 0);
  assert.ok(searched < 2 * PIECES * piece.length, `${searched} characters were searched`);
});

test("a last event without its blank line is there when the body ended in good order", () => {
  const splitter = new SseSplitter();
  assert.deepEqual(splitter.push(new TextEncoder().encode('data: {"a":1}')), []);
  assert.equal(splitter.rest().data, '{"a":1}');
});
