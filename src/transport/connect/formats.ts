/**
 * In which of Connect's formats a call is written.
 *
 * Binary is what streams are made for. JSON is for people with curl: it is translated to binary and back at the
 * edge, message by message, so that everything behind knows one format only.
 */
import { type DescMessage, fromBinary, fromJsonString, toBinary, toJsonString } from "@bufbuild/protobuf";
import { HoldfastError } from "../../protocol/errors.ts";
import { checkJson } from "../../protocol/json-check.ts";

export type Format = "proto" | "json";
export type CallKind = "stream" | "unary";

export function contentType(format: Format, kind: CallKind): string {
  return kind === "stream" ? `application/connect+${format}` : `application/${format}`;
}

/** Undefined when it is none that this kind of call may have. */
export function formatOf(type: string | undefined, kind: CallKind): Format | undefined {
  const essence = type?.split(";", 1)[0]?.trim().toLowerCase();
  if (essence === contentType("proto", kind)) return "proto";
  return essence === contentType("json", kind) ? "json" : undefined;
}

export function toWireFormat(format: Format, schema: DescMessage, message: Uint8Array): Uint8Array {
  if (format === "proto") return message;
  // A line of its own, for those who read by lines; white space is nothing to JSON.
  return new TextEncoder().encode(`${toJsonString(schema, fromBinary(schema, message))}\n`);
}

export function fromWireFormat(format: Format, schema: DescMessage, bytes: Uint8Array): Uint8Array {
  if (format === "proto") return bytes;
  checkJson(bytes);
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return toBinary(schema, fromJsonString(schema, text));
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : "unreadable";
    throw new HoldfastError("invalid_frame", `not a ${schema.typeName} in JSON: ${why.slice(0, 200)}`, {
      cause,
    });
  }
}
