/**
 * A request's body: read, unpacked, checked and parsed, each within its bound (E8).
 *
 * JSON must say that it is JSON: a page of another site can send plain text and forms without being asked, but not this. Bodies under way share a
 * bounded memory (`body-memory.ts`). Packed ones are unpacked one after another, large ones are parsed in slices: a few requests can neither
 * take all of the memory nor hold up the others.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import { HoldfastError } from "../../protocol/errors.ts";
import { checkJson } from "../../protocol/json-check.ts";
import { GatewayError, invalidRequest } from "../openai/index.ts";
import type { BodyMemory } from "./body-memory.ts";
import type { HttpCall } from "./http-call.ts";
import type { HttpLimits } from "./http-limits.ts";
import { JsonReader } from "./json-reader.ts";
import { packingOf, unpack } from "./packed-body.ts";
import { CHAT_HASH, hashRequest, type HashRules } from "./request-hash.ts";

export interface Json {
  readonly value: unknown;
  /** SHA-256 over what is asked; hexadecimal. */
  readonly hash: string;
  /** Unpacked. */
  readonly byteCount: number;
}

interface JsonBody extends Json {
  /** The request is accepted, and what was charged for its body can be given back. It is in any case when the call is over. */
  readonly release: () => void;
}

/** So much is parsed at once: a few milliseconds. */
const AT_ONCE_BYTES = 1024 * 1024;
/** The other requests get their turn after each slice of a larger one. */
export const SLICE_BYTES: number = 64 * 1024;

const UTF8 = new TextDecoder("utf-8", { fatal: true });

export class JsonBodies {
  readonly #limits: HttpLimits;
  readonly #memory: BodyMemory;
  #unpacking: Promise<unknown> = Promise.resolve();

  constructor(limits: HttpLimits, memory: BodyMemory) {
    this.#limits = limits;
    this.#memory = memory;
  }

  async read(call: HttpCall, principal: string, rules: HashRules = CHAT_HASH): Promise<JsonBody> {
    checkType(call.exchange.header("content-type"));
    const packing = packingOf(call.exchange.header("content-encoding"));
    const { bodyBytesMax, bodyTimeoutMs, jsonValuesMax } = this.#limits;
    const { take, release } = this.#memory.begin(principal);
    call.onOver(release);
    try {
      const sent = await call.readBody(bodyBytesMax, bodyTimeoutMs, take);
      const bytes =
        packing === undefined
          ? sent
          : await call.wait(this.#inLine(() => unpack(sent, packing, bodyBytesMax, take)));
      return { ...(await call.wait(parseJson(bytes, jsonValuesMax, call.signal, rules))), release };
    } catch (cause) {
      release();
      throw cause;
    }
  }

  #inLine(run: () => Promise<Uint8Array>): Promise<Uint8Array> {
    const unpacked = this.#unpacking.then(run);
    this.#unpacking = unpacked.catch(() => undefined);
    return unpacked;
  }
}

/** Rejects with what the client did wrong, or with the signal's reason. */
export async function parseJson(
  bytes: Uint8Array,
  valuesMax: number,
  signal: AbortSignal,
  rules: HashRules = CHAT_HASH,
): Promise<Json> {
  try {
    return bytes.length <= AT_ONCE_BYTES
      ? parseAtOnce(bytes, valuesMax, rules)
      : await parseInSlices(bytes, valuesMax, signal, rules);
  } catch (cause) {
    if (cause instanceof HoldfastError) throw notJson(`The request's body is refused: ${cause.message}.`);
    if (signal.aborted || cause instanceof GatewayError) throw cause;
    // The parser's own words repeat what was sent.
    throw notJson("The request's body is not valid JSON in UTF-8.");
  }
}

function parseAtOnce(bytes: Uint8Array, valuesMax: number, rules: HashRules): Json {
  checkJson(bytes, valuesMax);
  const value: unknown = JSON.parse(UTF8.decode(bytes));
  const hashing = hashRequest(value, rules);
  let slice = hashing.next();
  while (slice.done !== true) slice = hashing.next();
  return { value, hash: slice.value, byteCount: bytes.length };
}

async function parseInSlices(
  bytes: Uint8Array,
  valuesMax: number,
  signal: AbortSignal,
  rules: HashRules,
): Promise<Json> {
  const reader = new JsonReader(bytes, valuesMax);
  while (!reader.step(SLICE_BYTES)) await nextTurn(undefined, { signal });
  const { value } = reader;
  const hashing = hashRequest(value, rules);
  for (let slice = hashing.next(); ; slice = hashing.next()) {
    if (slice.done === true) return { value, hash: slice.value, byteCount: bytes.length };
    await nextTurn(undefined, { signal });
  }
}

const JSON_TYPE = /^application\/json(?:\s*;.*)?$/i;

function checkType(type: string | undefined): void {
  if (type === "application/json" || JSON_TYPE.test(type?.trim() ?? "")) return;
  throw new GatewayError({
    status: 415,
    type: "invalid_request_error",
    code: "unsupported_media_type",
    message: "Send the request as JSON, with the header Content-Type: application/json.",
  });
}

function notJson(message: string): GatewayError {
  return invalidRequest("body", message, "invalid_json");
}
