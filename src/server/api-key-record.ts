/**
 * One row of the table of API keys, and its bytes: JSON, because it is read once in a while and by people
 * who look into their database.
 *
 * The API key itself is not in it. A row that does not parse is refused as damaged: a field that is
 * guessed might let somebody in.
 */
import { HoldfastError } from "../protocol/errors.ts";
import type { TableRow } from "../store/table-store.ts";
import { type ApiKeyLimits, readLimits } from "./api-key-limits.ts";

export interface ApiKeyRecord {
  /** Public: it stands in the API key, in lists and in logs. */
  readonly id: string;
  readonly principal: string;
  /** What the owner calls it. */
  readonly label: string;
  /** SHA-256 of the API key. */
  readonly hash: Uint8Array;
  readonly createdMs: number;
  /** To the hour; undefined when it was never used. */
  readonly lastUsedMs: number | undefined;
  readonly revokedMs: number | undefined;
  /** At the gateway; undefined when there are none, as in every row that is older than limits. */
  readonly limits: ApiKeyLimits | undefined;
}

const HASH_BYTES = 32;
const PRINCIPAL_CHARS_MAX = 128;
const LABEL_CHARS_MAX = 100;
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;

/** A principal is printed, logged and part of every stream's name. */
export function checkPrincipal(principal: string): void {
  checkPrintable(principal, "a principal", PRINCIPAL_CHARS_MAX);
  if (principal.trim() !== principal || principal === "") {
    throw new HoldfastError("invalid_argument", "a principal is not empty and has no space around it");
  }
}

export function checkLabel(label: string): void {
  checkPrintable(label, "a label", LABEL_CHARS_MAX);
}

/** Control characters would let a name rewrite the terminal that lists it. */
function checkPrintable(text: string, what: string, charsMax: number): void {
  if (!text.isWellFormed() || UNPRINTABLE.test(text)) {
    throw new HoldfastError("invalid_argument", `${what} is plain text without control characters`);
  }
  if (text.length > charsMax) {
    throw new HoldfastError("too_large", `${what} has at most ${charsMax} characters`);
  }
}

export function encodeApiKey(record: ApiKeyRecord): Uint8Array {
  const { id: _, hash, ...rest } = record;
  return new TextEncoder().encode(JSON.stringify({ ...rest, sha256: Buffer.from(hash).toString("hex") }));
}

export function decodeApiKey({ key, value }: TableRow): ApiKeyRecord {
  const damaged = (): HoldfastError =>
    new HoldfastError(
      "stream_failed",
      `the row of API key ${key} is damaged; restore the database from a backup`,
    );
  const row = parse(new TextDecoder().decode(value));
  if (row === undefined) throw damaged();
  const { principal, label, sha256, createdMs, lastUsedMs, revokedMs } = row;
  const limits = row["limits"] === undefined ? undefined : readLimits(row["limits"]);
  const hash = typeof sha256 === "string" ? Buffer.from(sha256, "hex") : Buffer.alloc(0);
  const isWhole =
    typeof principal === "string" &&
    typeof label === "string" &&
    typeof createdMs === "number" &&
    hash.length === HASH_BYTES &&
    isTime(lastUsedMs) &&
    isTime(revokedMs) &&
    (row["limits"] === undefined || limits !== undefined);
  if (!isWhole) throw damaged();
  return { id: key, principal, label, hash, createdMs, lastUsedMs, revokedMs, limits };
}

function isTime(value: unknown): value is number | undefined {
  return value === undefined || typeof value === "number";
}

function parse(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}
