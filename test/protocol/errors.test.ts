import assert from "node:assert/strict";
import { test } from "node:test";
import { fromBinary } from "@bufbuild/protobuf";
import {
  ERROR_CODES,
  errorCodeFromWire,
  errorCodeToWire,
  HoldfastError,
  isErrorCode,
  REMEDY_OF,
} from "../../src/protocol/errors.ts";
import { ErrorCode, ErrorCodeSchema, ErrorSchema } from "../../src/protocol/gen/holdfast/v1/errors_pb.ts";

test("each code of the proto has a remedy, and each remedy a code of the proto", () => {
  const inProto = ErrorCodeSchema.values.map((value) => value.localName.toLowerCase());
  assert.deepEqual(
    Object.keys(REMEDY_OF).toSorted(),
    inProto.filter((name) => name !== "unspecified").toSorted(),
  );
  assert.deepEqual([...ERROR_CODES].toSorted(), Object.keys(REMEDY_OF).toSorted());
});

test("a code keeps its name on the wire and comes back as itself", () => {
  for (const code of ERROR_CODES) {
    assert.equal(ErrorCodeSchema.value[errorCodeToWire(code)]?.localName.toLowerCase(), code);
    assert.equal(errorCodeFromWire(errorCodeToWire(code)), code);
  }
});

test("the remedies are the ones of the table in INVARIANTS", () => {
  const codesWith = (remedy: string) => ERROR_CODES.filter((code) => REMEDY_OF[code] === remedy).join(" ");
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
