import assert from "node:assert/strict";
import { test } from "node:test";
import { equals, fromBinary, toBinary } from "@bufbuild/protobuf";
import * as fc from "fast-check";
import { HoldfastError } from "../../src/protocol/errors.ts";
import {
  readExec,
  readExecOrder,
  writeExecAborted,
  writeExecError,
  writeExecRejected,
  writeExecThrow,
  writeExecUnknown,
} from "../../src/protocol/exec-codec.ts";
import type { ExecRef, ExecRequest } from "../../src/protocol/exec-codec.ts";
import {
  AgentClientMessageSchema,
  AgentServerMessageSchema,
} from "../../src/protocol/gen/holdfast/v1/agent_pb.ts";
import {
  ExecClientMessageSchema,
  ExecKindSchema,
  ExecServerMessageSchema,
  ExecThrowCode,
} from "../../src/protocol/gen/holdfast/v1/exec_pb.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import { execFixtures } from "./fixtures/exec-messages.ts";
import { serverFixtures } from "./fixtures/server-messages.ts";

const requests = execFixtures.filter(({ schema }) => schema === AgentServerMessageSchema);
const refused = { name: "HoldfastError", code: "invalid_frame" };

const read = (bytes: Uint8Array): ExecRequest => readExec(bytes) ?? assert.fail("this is an exec request");

/** AgentServerMessage.exec_server_message with the given bytes inside. */
const wrapped = (...inner: readonly number[]): Uint8Array => Uint8Array.of(0x12, inner.length, ...inner);
const execE1 = [0x7a, 2, 0x65, 0x31];

test("each kind of exec is read with its ids, its tool and the request as it stands", () => {
  const tools = new Set<string>();
  for (const { name, schema, message } of requests) {
    const bytes = toBinary(schema, message);
    const exec = read(bytes);
    assert.equal(exec.id, 9);
    assert.equal(exec.execId, "exec-9");
    assert.equal(exec.toolCallId, "call_1");
    const kind = name.split(" ")[1];
    assert.equal(exec.kind, kind);
    assert.equal(exec.tool, kind === "mcp" ? "weather" : kind);
    const { message: whole } = fromBinary(AgentServerMessageSchema, bytes);
    assert.ok(whole.case === "execServerMessage");
    assert.ok(equals(ExecServerMessageSchema, fromBinary(ExecServerMessageSchema, exec.args), whole.value));
    tools.add(exec.kind);
  }
  const kinds = ExecKindSchema.values.filter(({ number }) => number !== 0);
  assert.deepEqual([...tools].toSorted(), kinds.map(({ localName }) => localName.toLowerCase()).toSorted());
});

test("the number of a kind is the number of its arguments and of its result", () => {
  for (const { number, localName } of ExecKindSchema.values.filter((value) => value.number !== 0)) {
    const field = (fields: typeof ExecServerMessageSchema.fields) =>
      fields.find((each) => each.number === number)?.name;
    assert.equal(field(ExecServerMessageSchema.fields), `${localName.toLowerCase()}_args`);
    assert.equal(field(ExecClientMessageSchema.fields), `${localName.toLowerCase()}_result`);
  }
});

test("an outcome has the same number in the result of every kind", () => {
  const numbers = {
    success: 1,
    error: 2,
    rejected: 3,
    permission_denied: 4,
    not_found: 5,
    timeout: 6,
    unknown: 7,
    aborted: 8,
  };
  for (const field of ExecClientMessageSchema.oneofs.flatMap((oneof) => oneof.fields)) {
    assert.ok(field.fieldKind === "message");
    const outcomes = Object.fromEntries(field.message.fields.map((each) => [each.name, each.number]));
    assert.deepEqual({ ...outcomes, ...numbers }, outcomes, field.name);
  }
});

test("no other message is an exec request", () => {
  for (const { schema, message, name } of serverFixtures) {
    if (schema === AgentServerMessageSchema)
      assert.equal(readExec(toBinary(schema, message)), undefined, name);
  }
  assert.equal(readExec(new Uint8Array()), undefined);
});

test("an exec of a kind that we do not know is read, so that it can be answered with a throw", () => {
  // Field 31, length-delimited, empty.
  const exec = read(wrapped(...execE1, 0xfa, 0x01, 0));
  assert.equal(exec.kind, "unrecognized");
  assert.equal(exec.execId, "e1");
  for (const reply of [writeExecUnknown(exec, "?"), writeExecThrow(exec, "unknown_kind", "?")]) {
    const { message } = fromBinary(AgentClientMessageSchema, reply);
    assert.ok(message.case === "execClientControlMessage");
    assert.ok(message.value.message.case === "throw");
    assert.equal(message.value.message.value.code, ExecThrowCode.UNKNOWN_KIND);
    assert.equal(message.value.message.value.execId, "e1");
  }
});

test("fields of a newer server do not keep an exec from being read, also when they repeat", () => {
  const future = [0xa0, 0x06, 0x01];
  assert.equal(read(wrapped(...future, ...execE1, 0x12, 0, ...future)).kind, "shell");
});

/** AgentServerMessage.exec_server_control_message with the given bytes as its abort. */
const withdrawal = (...abort: readonly number[]): Uint8Array =>
  Uint8Array.of(0x2a, abort.length + 2, 0x0a, abort.length, ...abort);

test("the withdrawal of an exec is read by its exec id; other controls are nothing to us", () => {
  assert.deepEqual(readExecOrder(withdrawal(0x08, 9, ...execE1)), { kind: "abort", execId: "e1" });
  assert.equal(readExec(withdrawal(...execE1)), undefined, "it is no request");
  assert.equal(readExecOrder(Uint8Array.of(0x2a, 2, 0x12, 0)), undefined, "a control of a newer server");
  assert.throws(() => readExecOrder(withdrawal(0x08, 9)), refused, "without an exec id");
  assert.throws(() => readExecOrder(withdrawal(0x7a, 1, 0xff)), refused, "not a text");
  const shared = Uint8Array.of(...withdrawal(...execE1), ...wrapped(...execE1, 0x12, 0));
  assert.throws(() => readExecOrder(shared), refused, "a withdrawal and a request");
});

test("C5: a request that two parsers could read differently is refused", () => {
  assert.throws(() => readExec(wrapped(...execE1, 0x12, 0, 0x1a, 0)), refused, "two kinds");
  assert.throws(() => readExec(wrapped(...execE1, 0x12, 0, 0x12, 0)), refused, "one kind twice");
  assert.throws(() => readExec(wrapped(...execE1, ...execE1, 0x12, 0)), refused, "two exec ids");
  const twice = Uint8Array.of(...wrapped(...execE1, 0x12, 0), ...wrapped(...execE1, 0x12, 0));
  assert.throws(() => readExec(twice), refused, "two requests");
  const withText = Uint8Array.of(...wrapped(...execE1, 0x12, 0), 0x0a, 0);
  assert.throws(() => readExec(withText), refused, "a request and a text");
});

test("A8: an exec id is there and within its limit", () => {
  const named = (length: number) => wrapped(0x7a, length, ...new Uint8Array(length).fill(0x65), 0x12, 0);
  assert.throws(() => readExec(wrapped(0x12, 0)), refused);
  assert.equal(read(named(LIMITS.execIdBytesMax)).execId.length, LIMITS.execIdBytesMax);
  assert.throws(() => readExec(named(LIMITS.execIdBytesMax + 1)), refused);
});

test("arbitrary and damaged bytes are an exec, no exec, or a HoldfastError", () => {
  const originals = requests.map(({ schema, message }) => toBinary(schema, message));
  const damaged = fc
    .tuple(fc.constantFrom(...originals), fc.nat(), fc.integer({ min: 0, max: 255 }))
    .map(([original, at, value]) => original.with(at % original.length, value));
  fc.assert(
    fc.property(fc.oneof(damaged, fc.uint8Array({ maxLength: 100 })), (bytes) => {
      try {
        readExec(bytes);
      } catch (error) {
        assert.ok(error instanceof HoldfastError, String(error));
        assert.equal(error.code, "invalid_frame");
      }
    }),
    { numRuns: 3000 },
  );
});

test("C1: each outcome is written under the kind that was asked, with the request's ids", () => {
  for (const { schema, message } of requests) {
    const exec = read(toBinary(schema, message));
    const outcomes: readonly (readonly [string, Uint8Array])[] = [
      ["unknown", writeExecUnknown(exec, "crashed", 1_700_000_000_000)],
      ["rejected", writeExecRejected(exec, "no")],
      ["aborted", writeExecAborted(exec, "stopped")],
      ["error", writeExecError(exec, "broken")],
    ];
    for (const [outcome, bytes] of outcomes) {
      const reply = fromBinary(AgentClientMessageSchema, bytes).message;
      assert.ok(reply.case === "execClientMessage");
      assert.equal(reply.value.id, 9);
      assert.equal(reply.value.execId, "exec-9");
      assert.equal(reply.value.toolCallId, "call_1");
      const result = reply.value.message;
      const field = ExecClientMessageSchema.fields.find((each) => each.localName === result.case);
      assert.equal(field?.name, `${exec.kind}_result`);
      assert.equal(result.value?.result.case, outcome);
    }
  }
});

test("A2: the same outcome has the same bytes each time it is written", () => {
  const exec: ExecRef = { id: 1, execId: "e1", toolCallId: "c1", kind: "write" };
  assert.deepEqual(writeExecUnknown(exec, "crashed", 5), writeExecUnknown({ ...exec }, "crashed", 5));
});
