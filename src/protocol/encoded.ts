/** A message as bytes, from its fields. */
import { create, type DescMessage, type MessageInitShape, toBinary } from "@bufbuild/protobuf";

export function encoded<Desc extends DescMessage>(schema: Desc, init: MessageInitShape<Desc>): Uint8Array {
  return toBinary(schema, create(schema, init));
}
