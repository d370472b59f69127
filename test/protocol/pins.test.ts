/**
 * The wire, frozen.
 *
 * Logs, journals and blobs are read by later versions of the code than wrote them, and by clients that we
 * did not write. So the bytes of one example of everything are kept in `fixtures/pins.json`. A pin is never edited to make a
 * test pass; a new message gets a new one.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { equals, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { DescEnum, DescField, DescFile, Message } from "@bufbuild/protobuf";
import { reflect } from "@bufbuild/protobuf/reflect";
import type { ReflectMessage } from "@bufbuild/protobuf/reflect";
import {
  decodeClientFrame,
  decodeServerFrame,
  encodeClientFrame,
  encodeServerFrame,
} from "../../src/protocol/frame-codec.ts";
import { file_holdfast_v1_agent as agentFile } from "../../src/protocol/gen/holdfast/v1/agent_pb.ts";
import { file_holdfast_v1_blob as blobFile } from "../../src/protocol/gen/holdfast/v1/blob_pb.ts";
import { file_holdfast_v1_conversation as conversationFile } from "../../src/protocol/gen/holdfast/v1/conversation_pb.ts";
import { file_holdfast_v1_errors as errorsFile } from "../../src/protocol/gen/holdfast/v1/errors_pb.ts";
import { file_holdfast_v1_exec as execFile } from "../../src/protocol/gen/holdfast/v1/exec_pb.ts";
import { file_holdfast_v1_interaction as interactionFile } from "../../src/protocol/gen/holdfast/v1/interaction_pb.ts";
import { file_holdfast_v1_kv as kvFile } from "../../src/protocol/gen/holdfast/v1/kv_pb.ts";
import { file_holdfast_v1_step_options as optionsFile } from "../../src/protocol/gen/holdfast/v1/step_options_pb.ts";
import { file_holdfast_v1_stream as streamFile } from "../../src/protocol/gen/holdfast/v1/stream_pb.ts";
import { file_holdfast_v1_tools as toolsFile } from "../../src/protocol/gen/holdfast/v1/tools_pb.ts";
import { clientFixtures } from "./fixtures/client-messages.ts";
import { execFixtures } from "./fixtures/exec-messages.ts";
import pinned from "./fixtures/pins.json" with { type: "json" };
import { serverFixtures } from "./fixtures/server-messages.ts";
import { clientFrames, serverFrames, streamFixtures } from "./fixtures/stream-messages.ts";

const pins: ReadonlyMap<string, string> = new Map(Object.entries(pinned.messages));
const enumPins: Readonly<Record<string, Readonly<Record<string, number>>>> = pinned.enums;
const fixtures = [...streamFixtures, ...clientFixtures, ...serverFixtures, ...execFixtures];
const files: readonly DescFile[] = [
  agentFile,
  blobFile,
  conversationFile,
  errorsFile,
  execFile,
  interactionFile,
  kvFile,
  optionsFile,
  streamFile,
  toolsFile,
];

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");

function pinOf(name: string, actual: string): string {
  return (
    pins.get(name) ??
    assert.fail(`nothing is pinned for "${name}"; if it is new, add: "${name}": "${actual}"`)
  );
}

const changed = (name: string): string =>
  `THE WIRE CHANGED: "${name}" no longer has its frozen bytes. Peers and logs of earlier versions would ` +
  "not be understood. Undo the change of the .proto file, or add a new field instead.";

for (const { name, schema, message } of fixtures) {
  test(`the bytes of "${name}" are the ones that were frozen`, () => {
    const actual = hex(toBinary(schema, message));
    const pin = pinOf(name, actual);
    assert.equal(actual, pin, changed(name));
    assert.ok(equals(schema, fromBinary(schema, Buffer.from(pin, "hex")), message), changed(name));
  });
}

for (const [name, frame] of Object.entries(clientFrames)) {
  test(`the frame codec writes and reads the frozen bytes of "${name}"`, () => {
    const pin = pinOf(name, "");
    assert.equal(hex(encodeClientFrame(frame, "key")), pin, changed(name));
    assert.deepEqual(decodeClientFrame(new Uint8Array(Buffer.from(pin, "hex"))), {
      frame,
      idempotencyKey: "key",
    });
  });
}

for (const [name, frame] of Object.entries(serverFrames)) {
  test(`the frame codec writes and reads the frozen bytes of "${name}"`, () => {
    const pin = pinOf(name, "");
    assert.equal(hex(encodeServerFrame(frame)), pin, changed(name));
    assert.deepEqual(decodeServerFrame(new Uint8Array(Buffer.from(pin, "hex"))), frame);
  });
}

test("every pin has its fixture, and no two fixtures share a name", () => {
  const names = fixtures.map((fixture) => fixture.name);
  assert.deepEqual([...pins.keys()].toSorted(), names.toSorted());
});

test("every field of every message is set in some fixture, so none can be renumbered unnoticed", () => {
  const seen = new Set<DescField>();
  for (const { schema, message } of fixtures) collectFields(reflect(schema, message), seen);
  const missing = files
    .flatMap((file) => file.messages)
    .flatMap((message) => message.fields)
    .filter((field) => !seen.has(field))
    .map((field) => field.toString());
  assert.deepEqual(missing, []);
});

function collectFields(message: ReflectMessage, seen: Set<DescField>): void {
  for (const field of message.fields.filter((each) => message.isSet(each))) {
    seen.add(field);
    if (field.fieldKind === "message") {
      collectFields(message.get(field), seen);
    } else if (field.fieldKind === "list" && field.listKind === "message") {
      for (const item of message.get(field)) if (isReflected(item)) collectFields(item, seen);
    }
  }
}

function isReflected(value: unknown): value is ReflectMessage {
  return typeof value === "object" && value !== null && "fields" in value && "isSet" in value;
}

test("every value of every enum has its frozen number", () => {
  const numbersOf = (each: DescEnum) =>
    Object.fromEntries(each.values.map((value) => [value.name, value.number]));
  const actual = Object.fromEntries(
    files.flatMap((file) => file.enums).map((each) => [each.name, numbersOf(each)]),
  );
  for (const [name, values] of Object.entries(enumPins)) {
    for (const [value, number] of Object.entries(values)) {
      assert.equal(actual[name]?.[value], number, changed(value));
    }
  }
  assert.deepEqual(
    actual,
    enumPins,
    `an enum has a new value; add it to the pins: ${JSON.stringify(actual)}`,
  );
});

test("fields that a newer peer sets survive being decoded and encoded again", () => {
  for (const { schema, message } of fixtures) {
    // Field 1999, a varint: no message of ours has it.
    const extended = Buffer.concat([toBinary(schema, message), Buffer.from("f87c07", "hex")]);
    const decoded: Message = fromBinary(schema, extended);
    assert.equal(hex(toBinary(schema, decoded)), hex(extended));
  }
});
