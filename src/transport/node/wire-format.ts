/**
 * A message from the format in which a call is written to binary, and back.
 *
 * Only here are messages JSON, so only here are they known by the descriptors of `@bufbuild/protobuf`; everything else has tables (`src/protocol/message.ts`).
 */
import {
  createRegistry,
  type DescMessage,
  fromBinary,
  fromJsonString,
  toBinary,
  toJsonString,
} from "@bufbuild/protobuf";
import { firstChars } from "../../protocol/characters.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { file_holdfast_v1_blob } from "../../protocol/gen/holdfast/v1/blob_pb.ts";
import { file_holdfast_v1_stream } from "../../protocol/gen/holdfast/v1/stream_pb.ts";
import { checkJson } from "../../protocol/json-check.ts";
import type { Schema } from "../../protocol/message.ts";
import type { Format } from "../connect/formats.ts";

const DESCRIBED = createRegistry(file_holdfast_v1_blob, file_holdfast_v1_stream);

function described({ typeName }: Schema): DescMessage {
  const description = DESCRIBED.getMessage(typeName);
  if (description === undefined) throw new Error(`${typeName} is no message of a call`);
  return description;
}

export function toWireFormat(format: Format, schema: Schema, message: Uint8Array): Uint8Array {
  if (format === "proto") return message;
  // A line of its own, for readers that read by lines; JSON ignores white space.
  const description = described(schema);
  return new TextEncoder().encode(`${toJsonString(description, fromBinary(description, message))}\n`);
}

export function fromWireFormat(format: Format, schema: Schema, bytes: Uint8Array): Uint8Array {
  if (format === "proto") return bytes;
  checkJson(bytes);
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    const description = described(schema);
    return toBinary(description, fromJsonString(description, text));
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : "unreadable";
    throw new HoldfastError("invalid_frame", `not a ${schema.typeName} in JSON: ${firstChars(why, 200)}`, {
      cause,
    });
  }
}
