/**
 * Arrays as PostgreSQL reads them in binary: one parameter for a column of many rows.
 *
 * As text each body would be written as hexadecimal digits, twice as long, and escaped. In binary it is copied once.
 */

const OID = { int8: 20, text: 25, bytea: 17, jsonb: 3802 } as const;
/** Before the text of each. */
const JSONB_VERSION = 1;
const HEAD_BYTES = 20;
const INT8_BYTES = 8;
const LENGTH_BYTES = 4;
const NULL_LENGTH = -1;

type Element = Uint8Array | undefined;

export function bigints(values: readonly (number | undefined)[]): Buffer {
  const nulls = values.filter((value) => value === undefined).length;
  const array = Buffer.allocUnsafe(
    HEAD_BYTES + values.length * (LENGTH_BYTES + INT8_BYTES) - nulls * INT8_BYTES,
  );
  let at = writeHead(array, OID.int8, values.length, nulls > 0);
  for (const value of values) {
    at = array.writeInt32BE(value === undefined ? NULL_LENGTH : INT8_BYTES, at);
    if (value === undefined) continue;
    // In two halves: numbers are safe integers, and a BigInt for each would be garbage.
    at = array.writeInt32BE(Math.floor(value / 2 ** 32), at);
    at = array.writeUInt32BE(value >>> 0, at);
  }
  return array;
}

export function texts(values: readonly (string | undefined)[]): Buffer {
  return arrayOf(
    OID.text,
    values.map((value) => (value === undefined ? undefined : Buffer.from(value))),
  );
}

export function jsons(values: readonly (object | undefined)[]): Buffer {
  const shown = values.map(
    (value) => value && Buffer.concat([Uint8Array.of(JSONB_VERSION), Buffer.from(JSON.stringify(value))]),
  );
  return arrayOf(OID.jsonb, shown);
}

export function bodies(values: readonly Element[]): Buffer {
  return arrayOf(OID.bytea, values);
}

function arrayOf(oid: number, elements: readonly Element[]): Buffer {
  let bytes = HEAD_BYTES;
  for (const element of elements) bytes += LENGTH_BYTES + (element?.byteLength ?? 0);
  const array = Buffer.allocUnsafe(bytes);
  let at = writeHead(array, oid, elements.length, elements.includes(undefined));
  for (const element of elements) {
    array.writeInt32BE(element?.byteLength ?? NULL_LENGTH, at);
    at += LENGTH_BYTES;
    if (element === undefined) continue;
    array.set(element, at);
    at += element.byteLength;
  }
  return array;
}

/** One dimension, counted from 1. Returns where the elements begin. */
function writeHead(array: Buffer, oid: number, length: number, hasNull: boolean): number {
  array.writeInt32BE(1, 0);
  array.writeInt32BE(hasNull ? 1 : 0, 4);
  array.writeInt32BE(oid, 8);
  array.writeInt32BE(length, 12);
  return array.writeInt32BE(1, 16);
}
