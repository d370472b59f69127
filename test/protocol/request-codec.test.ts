/**
 * What asks and what answers, told apart from everything else that goes over a stream.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import * as fc from "fast-check";
import { writeExecThrow, writeExecUnknown } from "../../src/protocol/exec-codec.ts";
import { AgentClientMessageSchema, AgentServerMessageSchema } from "./described.ts";
import { answerIn, nameOfRequest, requestIn } from "../../src/protocol/request-codec.ts";
import { clientFixtures } from "./fixtures/client-messages.ts";
import { execFixtures } from "./fixtures/exec-messages.ts";
import { serverFixtures } from "./fixtures/server-messages.ts";

type ServerMessage = NonNullable<MessageInitShape<typeof AgentServerMessageSchema>["message"]>;
type ClientMessage = NonNullable<MessageInitShape<typeof AgentClientMessageSchema>["message"]>;

const event = (message: ServerMessage): Uint8Array =>
  toBinary(AgentServerMessageSchema, create(AgentServerMessageSchema, { message }));
const chunk = (message: ClientMessage): Uint8Array =>
  toBinary(AgentClientMessageSchema, create(AgentClientMessageSchema, { message }));

const asked = (body: Uint8Array): string | undefined => {
  const request = requestIn(body);
  return request && nameOfRequest(request);
};
const answered = (body: Uint8Array): string | undefined => {
  const request = answerIn(body);
  return request && nameOfRequest(request);
};

test("an exec, a request for a blob and a query are requests; no other event is", () => {
  const kinds = new Map([
    ["execServerMessage", "exec"],
    ["kvServerMessage", "kv"],
    ["interactionQuery", "query"],
  ]);
  for (const { name, schema, message } of [...serverFixtures, ...execFixtures]) {
    if (schema !== AgentServerMessageSchema) continue;
    const bytes = toBinary(schema, message);
    const { message: said } = fromBinary(AgentServerMessageSchema, bytes);
    assert.equal(requestIn(bytes)?.kind, kinds.get(String(said.case)), name);
  }
});

test("a request is named by the id that its answer repeats", () => {
  const exec = { execId: "2.0", message: { case: "shellArgs", value: { command: "true" } } } as const;
  assert.equal(asked(event({ case: "execServerMessage", value: exec })), "exec 2.0");
  assert.equal(asked(event({ case: "kvServerMessage", value: { id: 3 } })), "kv 3");
  assert.equal(asked(event({ case: "interactionQuery", value: { id: 4 } })), "query 4");
  assert.equal(answered(chunk({ case: "kvClientMessage", value: { id: 3 } })), "kv 3");
  assert.equal(answered(chunk({ case: "interactionResponse", value: { id: 4 } })), "query 4");
});

test("an exec is answered by its outcome, by a throw and by a close", () => {
  const exec = { id: 1, execId: "2.0", toolCallId: "call", kind: "shell" } as const;
  assert.equal(answered(writeExecUnknown(exec, "killed")), "exec 2.0");
  assert.equal(answered(writeExecThrow(exec, "internal", "no")), "exec 2.0");
  const close = { message: { case: "streamClose", value: { id: 1, execId: "2.0" } } } as const;
  assert.equal(answered(chunk({ case: "execClientControlMessage", value: close })), "exec 2.0");
});

test("what an exec says while it runs is no answer", () => {
  const reply = (message: Extract<ClientMessage, { case: "execClientMessage" }>["value"]["message"]) =>
    answered(chunk({ case: "execClientMessage", value: { execId: "2.0", ...(message && { message }) } }));
  const started = { case: "started", value: {} } as const;
  const progress = { case: "progress", value: { text: "half" } } as const;
  const success = { case: "success", value: {} } as const;
  assert.equal(reply({ case: "shellStreamResult", value: { result: started } }), undefined);
  assert.equal(reply({ case: "subagentResult", value: { result: progress } }), undefined);
  assert.equal(reply({ case: "shellStreamResult", value: { result: success } }), "exec 2.0");
});

test("no other chunk is an answer", () => {
  const answers = new Set([
    "execClientMessage",
    "execClientControlMessage",
    "kvClientMessage",
    "interactionResponse",
  ]);
  for (const { name, schema, message } of clientFixtures) {
    if (schema !== AgentClientMessageSchema) continue;
    const bytes = toBinary(schema, message);
    const { message: said } = fromBinary(AgentClientMessageSchema, bytes);
    if (!answers.has(String(said.case))) assert.equal(answerIn(bytes), undefined, name);
  }
});

test("an application's own text is never taken for a request", () => {
  const isText = (one: string): boolean => !one.includes("\b") && !one.includes("\u0012");
  const text = fc.string({ unit: "grapheme", maxLength: 200 }).filter(isText);
  fc.assert(fc.property(text, (one) => requestIn(new TextEncoder().encode(one)) === undefined));
  fc.assert(fc.property(fc.json(), (one) => requestIn(new TextEncoder().encode(one)) === undefined));
  assert.equal(requestIn(new TextEncoder().encode(`"a${"b".repeat(97)}`)), undefined);
});

test("bytes that are cut off, or say two things at once, are nothing", () => {
  const kv = event({ case: "kvServerMessage", value: { id: 3 } });
  fc.assert(fc.property(fc.nat(kv.length - 1), (length) => requestIn(kv.subarray(0, length)) === undefined));
  const query = event({ case: "interactionQuery", value: { id: 4 } });
  assert.equal(requestIn(Buffer.concat([kv, query])), undefined);
  assert.equal(requestIn(event({ case: "kvServerMessage", value: {} })), undefined);
  assert.equal(requestIn(event({ case: "execServerMessage", value: { execId: "a b" } })), undefined);
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => void [requestIn(bytes), answerIn(bytes)]),
  );
});
