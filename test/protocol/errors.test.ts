import assert from "node:assert/strict";
import { test } from "node:test";
import { fromBinary } from "@bufbuild/protobuf";
import { OUTCOMES } from "../../src/client/journal-codec.ts";
import {
  errorCodeFromWire,
  errorCodeToWire,
  HoldfastError,
  isErrorCode,
  type LocalCode,
  REMEDY_OF,
  WIRE_CODES,
} from "../../src/protocol/errors.ts";
import { DURABILITIES, ENDS, MODES, ROLES } from "../../src/protocol/frame-names.ts";
import { JournalOutcomeSchema } from "../../src/protocol/gen/holdfast/storage/v1/journal_pb.ts";
import { ErrorCode, ErrorCodeSchema, ErrorSchema } from "../../src/protocol/gen/holdfast/v1/errors_pb.ts";
import {
  AttachModeSchema,
  DurabilitySchema,
  EndReasonSchema,
  RoleSchema,
} from "../../src/protocol/gen/holdfast/v1/stream_pb.ts";

const LOCAL: readonly LocalCode[] = ["invalid_argument", "already_exists", "busy"];

test("each code of the proto has a remedy, and each remedy a code of the proto or a local one", () => {
  const inProto = ErrorCodeSchema.values.map((value) => value.localName.toLowerCase());
  assert.deepEqual(
    Object.keys(REMEDY_OF).toSorted(),
    [...inProto.filter((name) => name !== "unspecified"), ...LOCAL].toSorted(),
  );
  assert.deepEqual([...WIRE_CODES, ...LOCAL].toSorted(), Object.keys(REMEDY_OF).toSorted());
});

test("a local mistake is no code of the wire: a peer is told of a fault on this side", () => {
  for (const code of LOCAL) {
    assert.ok(isErrorCode(code));
    assert.equal(errorCodeFromWire(errorCodeToWire(code)), "internal");
  }
  assert.deepEqual(
    LOCAL.map((code) => REMEDY_OF[code]),
    ["stop", "stop", "retry"],
  );
});

test("whatever was thrown becomes an error of ours, and one of ours stays as it is", () => {
  const ours = new HoldfastError("busy", "later");
  assert.equal(HoldfastError.from(ours, "unavailable", "other words"), ours);
  const disk = new Error("no space");
  const made = HoldfastError.from(disk, "unavailable");
  assert.deepEqual([made.code, made.message, made.cause], ["unavailable", "no space", disk]);
  assert.equal(HoldfastError.from(disk, "unavailable", "the disk is full").message, "the disk is full");
  assert.deepEqual(
    [HoldfastError.from("text").code, HoldfastError.from("text").message],
    ["internal", "text"],
  );
  assert.deepEqual([HoldfastError.codeOf(ours), HoldfastError.codeOf(disk)], ["busy", undefined]);
});

test("a code keeps its name on the wire and comes back as itself", () => {
  for (const code of WIRE_CODES) {
    assert.equal(ErrorCodeSchema.value[errorCodeToWire(code)]?.localName.toLowerCase(), code);
    assert.equal(errorCodeFromWire(errorCodeToWire(code)), code);
  }
});

test("what frames and journals say as numbers has the contract's names", () => {
  const tables = [MODES, ROLES, DURABILITIES, ENDS, OUTCOMES];
  const enums = [AttachModeSchema, RoleSchema, DurabilitySchema, EndReasonSchema, JournalOutcomeSchema];
  for (const [at, { values }] of enums.entries()) {
    const named = values.slice(1).map(({ localName, number }) => [localName.toLowerCase(), number]);
    assert.deepEqual(tables[at], Object.fromEntries(named));
  }
});

test("the remedies are the ones of the table in INVARIANTS", () => {
  const codesWith = (remedy: string) => WIRE_CODES.filter((code) => REMEDY_OF[code] === remedy).join(" ");
  assert.equal(
    codesWith("stop"),
    "invalid_frame too_large not_found stream_ended stream_failed seqno_conflict fenced unsupported_version",
  );
  assert.equal(codesWith("reconnect"), "seqno_gap event_gap connection_lost");
  assert.equal(codesWith("restart"), "stream_gone events_gone event_ahead");
  assert.equal(codesWith("retry"), "overloaded unavailable internal");
  assert.equal(codesWith("ask"), "unauthenticated");
});

test("a code from a newer server is retried, because that throws nothing away", () => {
  const { code } = fromBinary(ErrorSchema, Uint8Array.of(0x08, 0xe7, 0x07));
  assert.equal(Number(code), 999);
  assert.equal(errorCodeFromWire(code), "internal");
});

test("an error without a code is refused", () => {
  assert.throws(() => errorCodeFromWire(ErrorCode.UNSPECIFIED), { code: "invalid_frame" });
});

test("an error carries its code, remedy, cause and waiting time", () => {
  const cause = new Error("disk");
  const error = new HoldfastError("unavailable", "the store is down", { cause, retryAfterMs: 250 });
  assert.ok(error instanceof Error);
  assert.equal(error.name, "HoldfastError");
  assert.equal(error.remedy, "retry");
  assert.equal(error.retryAfterMs, 250);
  assert.equal(error.cause, cause);
  assert.ok(!("cause" in new HoldfastError("fenced", "another device writes")));
});

test("names that objects have by themselves are no codes", () => {
  for (const text of ["constructor", "__proto__", "toString", "", "INTERNAL"]) {
    assert.equal(isErrorCode(text), false);
  }
  assert.equal(isErrorCode("internal"), true);
});
