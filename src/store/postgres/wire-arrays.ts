/**
 * Arrays as PostgreSQL reads them in binary: one parameter for a column of many rows.
 *
 * As text each body would be written as hexadecimal digits, twice as long, and escaped. In binary it is copied once.
 */

const OID = { int8: 20, text: 25, bytea: 17 } as const;
const HEAD_BYTES = 20;
const LENGTH_BYTES = 4;
const NULL_LENGTH = -1;

type Element = Uint8Array | undefined;

export function bigints(values: readonly (number | undefined)[]): Buffer {
  return arrayOf(OID.int8, values.map(bigint));
}

export function texts(values: readonly (string | undefined)[]): Buffer {
  return arrayOf(
    OID.text,
    values.map((value) => (value === undefined ? undefined : Buffer.from(value))),
  );
}

export function bodies(values: readonly Element[]): Buffer {
  return arrayOf(OID.bytea, values);
}

function bigint(value: number | undefined): Element {
  if (value === undefined) return undefined;
  const bytes = Buffer.allocUnsafe(8);
  bytes.writeBigInt64BE(BigInt(value));
  return bytes;
}

function arrayOf(oid: number, elements: readonly Element[]): Buffer {
  let bytes = HEAD_BYTES;
  for (const element of elements) bytes += LENGTH_BYTES + (element?.byteLength ?? 0);
  const array = Buffer.allocUnsafe(bytes);
  array.writeInt32BE(1, 0);
  array.writeInt32BE(elements.includes(undefined) ? 1 : 0, 4);
  array.writeInt32BE(oid, 8);
  array.writeInt32BE(elements.length, 12);
  array.writeInt32BE(1, 16);
  let at = HEAD_BYTES;
  for (const element of elements) {
    array.writeInt32BE(element?.byteLength ?? NULL_LENGTH, at);
    at += LENGTH_BYTES;
    if (element === undefined) continue;
    array.set(element, at);
    at += element.byteLength;
  }
  return array;
}
