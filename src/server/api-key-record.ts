/**
 * One row of the table of API keys, and its bytes: JSON, because it is read once in a while and by people
 * who look into their database.
 *
 * The API key itself is not in it. A row that does not fit the schema is refused as damaged: a field that is
 * guessed might let a stranger in.
 */
import * as z from "../protocol/rules.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { parsedJson } from "../protocol/fields.ts";
import type { TableRow } from "../store/table-store.ts";
import { textThat } from "../protocol/checked.ts";
import { LIMITS } from "./api-key-limits.ts";

const FIELDS = {
  principal: z.string(),
  /** What the owner calls it. */
  label: z.string(),
  createdMs: z.number(),
  /** To the hour; absent when it was never used. */
  lastUsedMs: z.optional(z.number()),
  revokedMs: z.optional(z.number()),
  /** At the gateway; absent when there are none. */
  limits: z.optional(LIMITS),
};

/** One API key as lists show it. Times in milliseconds since 1970. The id is public: it stands in the API key, in lists and in logs. */
export const API_KEY_INFO_FIELDS = {
  id: z.string(),
  ...FIELDS,
  /** What it has spent since the day of UTC began; absent when that is nothing. */
  tokensToday: z.optional(z.number()),
};
export const API_KEY_INFO = z.object(API_KEY_INFO_FIELDS);
export type ApiKeyInfo = Readonly<z.output<typeof API_KEY_INFO>>;

export interface ApiKeyRecord extends ApiKeyInfo {
  /** SHA-256 of the API key. */
  readonly hash: Uint8Array;
}

const ROW = z.object({
  ...FIELDS,
  sha256: textThat((digits) => /^[0-9a-f]{64}$/.test(digits), "must be a hash"),
});

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
  const { data: row } = z.safeParse(ROW, parsedJson(new TextDecoder().decode(value)));
  if (row === undefined) {
    throw new HoldfastError(
      "stream_failed",
      `the row of API key ${key} is damaged; restore the database from a backup`,
    );
  }
  const { sha256, ...info } = row;
  return { ...info, id: key, hash: Buffer.from(sha256, "hex") };
}
