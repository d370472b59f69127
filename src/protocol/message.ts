/**
 * Messages as values, to bytes and back, by tables that `scripts/generate.ts` makes of the .proto files.
 *
 * A value is what `@bufbuild/protobuf` makes of the same message, with `$typeName`, `$unknown` and one object for each oneof: programs and tests may use either.
 * What it has beyond this (JSON, reflection, extensions, maps, groups) no message of ours needs outside of the server's edge, and browsers do not load it.
 *
 * Nothing is lost: fields that a newer peer has are kept, and written again behind the known ones. Malformed bytes throw, and so do numbers that do not fit.
 */
import type { Message, MessageInitShape as InitOf } from "@bufbuild/protobuf";
import type { GenMessage } from "@bufbuild/protobuf/codegenv2";
import { BIT64, DEPTH_MAX, LENGTH_DELIMITED, VARINT, WireReader, WireWriter } from "./wire.ts";

/** How programs give a message: every field may be left out, and messages within need no schema. */
export type MessageInitShape<Of extends Schema> =
  Of extends Schema<infer Shape> ? InitOf<GenMessage<Shape>> : never;
export type MessageShape<Of extends Schema> = Of extends Schema<infer Shape> ? Shape : never;

interface Field {
  readonly no: number;
  /** The type: (s)tring, (b)ytes, (t)ruth, (u)int32, (e)num and other int32, (d)ouble, (U)int64, (I)nt64, (m)essage. */
  readonly letter: string;
  readonly name: string;
  readonly oneof: string | undefined;
  readonly isList: boolean;
  /** Written whenever it is there, also when it is zero. */
  readonly hasPresence: boolean;
  /** What stands before one value of it. */
  readonly tag: number;
  /** Each item of a list is written with a tag of its own. */
  readonly isDelimited: boolean;
  /** Of a message. */
  readonly schema: Schema | undefined;
}

/** Fields of one oneof whose numbers follow each other: at most one of them is there. */
interface Choice {
  readonly oneof: string;
  readonly cases: Map<unknown, Field>;
}

/** A message whose fields are reached by their names. */
interface Loose {
  [name: string]: unknown;
  readonly $typeName?: string;
  $unknown?: UnknownField[];
}

interface UnknownField {
  readonly no: number;
  readonly wireType: number;
  readonly data: Uint8Array;
}

interface Table {
  readonly fields: ReadonlyMap<number, Field>;
  /** In the order in which they are written. */
  readonly slots: readonly (Field | Choice)[];
  /** A message without content. Each one has lists and oneofs of its own. */
  readonly empty: Loose;
  readonly lists: readonly string[];
  readonly oneofs: readonly string[];
}

/** What a message consists of. Its table is made for the first message. */
export class Schema<Shape extends Message = Message> {
  declare readonly shape: Shape;
  readonly typeName: string;
  readonly #fields: string;
  readonly #messages: () => readonly Schema[];

  /**
   * `fields`, in order of their numbers: number, letter, `?` for one with presence or `*` for a list, and the name behind that of its oneof.
   * `messages`: those of the fields that are messages, in the same order.
   */
  constructor(typeName: string, fields = "", messages: () => readonly Schema[] = () => []) {
    this.typeName = typeName;
    this.#fields = fields;
    this.#messages = messages;
  }

  get table(): Table {
    const value: Table = tableOf(this.typeName, this.#fields, this.#messages());
    // From now on it is a field of the schema, which is read without a call.
    Object.defineProperty(this, "table", { value });
    return value;
  }
}

function tableOf($typeName: string, text: string, messages: readonly Schema[]): Table {
  const fields = new Map<number, Field>();
  const slots: (Field | Choice)[] = [];
  const empty: Loose = { $typeName };
  const lists: string[] = [];
  const oneofs: string[] = [];
  let messageCount = 0;
  for (const [, no, letter = "", mark, oneof, name = ""] of text.matchAll(
    /(\d+)(\w)(\W?):(?:(\w+)\.)?(\w+)/g,
  )) {
    const isList = mark === "*";
    const schema = letter === "m" ? messages[messageCount++] : undefined;
    const hasPresence = mark === "?" || schema !== undefined;
    const isDelimited = letter === "m" || letter === "s" || letter === "b";
    const tag = Number(no) * 8 + (isDelimited ? LENGTH_DELIMITED : letter === "d" ? BIT64 : VARINT);
    const about = { isList, hasPresence, tag, isDelimited };
    const field: Field = { no: Number(no), letter, name, oneof, schema, ...about };
    fields.set(field.no, field);
    if (oneof === undefined) {
      slots.push(field);
      if (isList) lists.push(name);
      if (isList || !hasPresence) empty[name] = ZEROS[letter];
    } else {
      const last = slots.at(-1);
      if (last !== undefined && "cases" in last && last.oneof === oneof) last.cases.set(name, field);
      else slots.push({ oneof, cases: new Map([[name, field]]) });
      if (!(oneof in empty)) oneofs.push(oneof);
      empty[oneof] = undefined;
    }
  }
  // An object that grew field by field is slow to copy.
  return { fields, slots, empty: Object.fromEntries(Object.entries(empty)), lists, oneofs };
}

const ZEROS: Readonly<Record<string, unknown>> = {
  s: "",
  b: new Uint8Array(0),
  t: false,
  u: 0,
  e: 0,
  U: 0n,
  I: 0n,
};

function emptyOf({ empty, lists, oneofs }: Table): Loose {
  const message = { ...empty };
  for (const name of lists) message[name] = [];
  for (const name of oneofs) message[name] = { case: undefined };
  return message;
}

/** A message of these fields. What is a message of this schema already is returned as it is. */
export function create<Of extends Schema>(schema: Of, init?: MessageInitShape<Of>): MessageShape<Of>;
export function create(schema: Schema, init?: unknown): unknown {
  if (!isObject(init)) return emptyOf(schema.table);
  return init.$typeName === schema.typeName ? init : filled(schema.table, init);
}

function filled(table: Table, init: Loose): Loose {
  const message = emptyOf(table);
  for (const slot of table.slots) {
    if ("cases" in slot) {
      const chosen = init[slot.oneof];
      if (typeof chosen !== "object" || chosen === null || !("case" in chosen)) continue;
      const field = slot.cases.get(chosen.case);
      if (field === undefined) continue;
      const value = "value" in chosen ? chosen.value : undefined;
      message[slot.oneof] = { case: field.name, value: valueOf(field, value) };
    } else {
      const value = init[slot.name];
      if (value === undefined || value === null) continue;
      if (slot.schema === undefined) message[slot.name] = value;
      else if (!slot.isList || !Array.isArray(value)) message[slot.name] = valueOf(slot, value);
      else message[slot.name] = value.map((item) => valueOf(slot, item));
    }
  }
  return message;
}

function valueOf({ schema }: Field, value: unknown): unknown {
  if (schema === undefined || typeof value !== "object" || value === null || Array.isArray(value))
    return value;
  return create(schema, value);
}

function isObject(value: unknown): value is Loose {
  return typeof value === "object" && value !== null;
}

export function fromBinary<Of extends Schema>(schema: Of, bytes: Uint8Array): MessageShape<Of>;
export function fromBinary(schema: Schema, bytes: Uint8Array): unknown {
  const reader = new WireReader(bytes);
  const { table } = schema;
  return readMessage(table, emptyOf(table), reader, reader.len, DEPTH_MAX);
}

/** Fields that come twice replace the first one; messages are merged, lists grow. */
function readMessage(
  { fields, empty }: Table,
  message: Loose,
  reader: WireReader,
  end: number,
  depthLeft: number,
): Loose {
  if (depthLeft === 0) throw new Error(`${empty.$typeName} is nested deeper than ${DEPTH_MAX}`);
  while (reader.pos < end) {
    const tag = reader.tag();
    const field = fields.get(tag >>> 3);
    if (field === undefined) {
      const data = reader.skip(tag, depthLeft - 1);
      (message.$unknown ??= []).push({ no: tag >>> 3, wireType: tag & 7, data });
    } else if (field.isList) {
      readItems(field, message[field.name], reader, tag, depthLeft);
    } else if (field.oneof === undefined) {
      message[field.name] = readValue(field, message[field.name], reader, depthLeft);
    } else {
      const before = field.schema === undefined ? undefined : chosenIn(message[field.oneof], field);
      message[field.oneof] = { case: field.name, value: readValue(field, before, reader, depthLeft) };
    }
  }
  return message;
}

/** What an earlier part of the same message has there. */
function chosenIn(chosen: unknown, field: Field): unknown {
  return isObject(chosen) && chosen["case"] === field.name ? chosen["value"] : undefined;
}

function readItems(field: Field, items: unknown, reader: WireReader, tag: number, depthLeft: number): void {
  if (!Array.isArray(items)) return;
  if ((tag & 7) !== LENGTH_DELIMITED || field.isDelimited) {
    items.push(readValue(field, undefined, reader, depthLeft));
    return;
  }
  const end = reader.uint32() + reader.pos;
  while (reader.pos < end) items.push(readValue(field, undefined, reader, depthLeft));
}

function readValue(
  { letter, schema }: Field,
  before: unknown,
  reader: WireReader,
  depthLeft: number,
): unknown {
  if (schema !== undefined) {
    const { table } = schema;
    const message = before !== undefined && isObject(before) ? before : emptyOf(table);
    const length = reader.uint32();
    return readMessage(table, message, reader, reader.pos + length, depthLeft - 1);
  }
  switch (letter) {
    case "s":
      return reader.string();
    case "b":
      return reader.bytes();
    case "t":
      return reader.bool();
    case "u":
      return reader.uint32();
    case "e":
      return reader.uint32() | 0;
    case "d":
      return reader.double();
    default: {
      const value = reader.uint64();
      return letter === "I" ? BigInt.asIntN(64, value) : value;
    }
  }
}

export function toBinary<Of extends Schema>(schema: Of, message: MessageShape<Of>): Uint8Array;
export function toBinary(schema: Schema, message: unknown): Uint8Array {
  const writer = new WireWriter();
  writeMessage(schema, message, writer);
  return writer.finish();
}

function writeMessage(schema: Schema, message: unknown, writer: WireWriter): void {
  if (!isObject(message) || message.$typeName !== schema.typeName) {
    throw new Error(`not a ${schema.typeName}`);
  }
  for (const slot of schema.table.slots) {
    if ("cases" in slot) {
      const chosen = message[slot.oneof];
      if (typeof chosen !== "object" || chosen === null || !("case" in chosen)) continue;
      const field = slot.cases.get(chosen.case);
      if (field !== undefined) writeField(field, "value" in chosen ? chosen.value : undefined, writer);
      continue;
    }
    const value = message[slot.name];
    if (slot.isList) {
      if (!Array.isArray(value)) throw unfit(slot);
      if (value.length > 0) writeItems(slot, value, writer);
    } else if (slot.hasPresence) {
      if (value !== undefined) writeField(slot, value, writer);
    } else if (value !== "" && value !== 0 && value !== false && value !== 0n) {
      if (!(value instanceof Uint8Array) || value.length > 0) writeField(slot, value, writer);
    }
  }
  for (const { no, wireType, data } of message.$unknown ?? []) writer.varint(no * 8 + wireType).raw(data);
}

function writeItems(field: Field, items: readonly unknown[], writer: WireWriter): void {
  if (field.isDelimited) {
    for (const item of items) writeField(field, item, writer);
  } else {
    const start = writer.varint(field.no * 8 + LENGTH_DELIMITED).begin();
    for (const item of items) writeValue(field, item, writer);
    writer.end(start);
  }
}

function writeField(field: Field, value: unknown, writer: WireWriter): void {
  writer.varint(field.tag);
  writeValue(field, value, writer);
}

function writeValue(field: Field, value: unknown, writer: WireWriter): void {
  switch (field.letter) {
    case "s":
      if (typeof value !== "string") throw unfit(field);
      writer.string(value);
      return;
    case "b":
      if (!(value instanceof Uint8Array)) throw unfit(field);
      writer.bytes(value);
      return;
    case "t":
      writer.varint(value === true ? 1 : 0);
      return;
    case "u":
      if (typeof value !== "number" || value >>> 0 !== value) throw unfit(field);
      writer.varint(value);
      return;
    case "e":
      if (typeof value !== "number" || (value | 0) !== value) throw unfit(field);
      if (value < 0) writer.varint64(BigInt(value));
      else writer.varint(value);
      return;
    case "d":
      if (typeof value !== "number") throw unfit(field);
      writer.double(value);
      return;
    case "m": {
      const start = writer.begin();
      if (field.schema !== undefined) writeMessage(field.schema, value, writer);
      writer.end(start);
      return;
    }
    default:
      if (
        typeof value !== "bigint" ||
        BigInt[field.letter === "I" ? "asIntN" : "asUintN"](64, value) !== value
      ) {
        throw unfit(field);
      }
      writer.varint64(value);
  }
}

function unfit({ name }: Field): Error {
  return new Error(`the field ${name} does not hold what it is for`);
}

/** A message as bytes, from its fields. */
export function encoded<Of extends Schema>(schema: Of, init: MessageInitShape<Of>): Uint8Array {
  return toBinary(schema, create(schema, init));
}

/** What a message says, without what makes it a message. */
export function fieldsOf<Shape extends Message>(message: Shape): Omit<Shape, "$typeName" | "$unknown"> {
  const { $typeName: _, $unknown: __, ...fields } = message;
  return fields;
}

/** A message that shares nothing with the first one. */
export function clone<Shape extends Message>(message: Shape): Shape;
export function clone(message: unknown): unknown {
  return copy(message);
}

function copy(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(copy);
  if (value instanceof Uint8Array) return value.slice();
  return isObject(value)
    ? Object.fromEntries(Object.entries(value).map(([name, field]) => [name, copy(field)]))
    : value;
}
