/**
 * Values of a result row, with the type that the schema promises.
 *
 * The tables are STRICT, so a value of another type means that the file is not what it says it is.
 */
import type { SQLOutputValue } from "node:sqlite";
import { HoldfastError } from "../../protocol/errors.ts";

export type Row = Readonly<Record<string, SQLOutputValue>>;

export function number(row: Row | undefined, column: string): number {
  const value = row?.[column];
  return typeof value === "number" ? value : wrongType(column);
}

export function numberOrNull(row: Row, column: string): number | undefined {
  return row[column] === null ? undefined : number(row, column);
}

export function text(row: Row, column: string): string {
  const value = row[column];
  return typeof value === "string" ? value : wrongType(column);
}

export function bytes(row: Row, column: string): Uint8Array<ArrayBuffer> {
  const value = row[column];
  return value instanceof Uint8Array ? value : wrongType(column);
}

function wrongType(column: string): never {
  throw new HoldfastError("stream_failed", `the database is damaged: column ${column} has another type`);
}
