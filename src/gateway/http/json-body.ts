/**
 * A request's body: read, unpacked, checked and parsed, each within its bound (E8).
 *
 * JSON must say that it is JSON: a page of another site can send plain text and forms without being asked, but not this. Bodies under way share a
 * bounded memory, of which one principal may take half; packed ones are unpacked one after another, so that a few small ones cannot become
 * many large ones at the same time.
 */
import { createHash } from "node:crypto";
import { promisify } from "node:util";
import { brotliDecompress, gunzip, inflate, zstdDecompress } from "node:zlib";
import { HoldfastError } from "../../protocol/errors.ts";
import { checkJson } from "../../protocol/json-check.ts";
import { GatewayError, invalidRequest } from "../openai/index.ts";
import type { HttpCall } from "./http-call.ts";
import type { HttpLimits } from "./http-limits.ts";

export interface JsonBody {
  readonly value: unknown;
  /** SHA-256 over the bytes, unpacked; hexadecimal. */
  readonly hash: string;
}

type Unpack = (bytes: Uint8Array, options: { maxOutputLength: number }) => Promise<Uint8Array>;

const UNPACK: ReadonlyMap<string, Unpack> = new Map<string, Unpack>([
  ["gzip", promisify(gunzip)],
  ["deflate", promisify(inflate)],
  ["br", promisify(brotliDecompress)],
  ["zstd", promisify(zstdDecompress)],
]);

export class JsonBodies {
  readonly #limits: HttpLimits;
  readonly #held = new Map<string, number>();
  #heldBytes = 0;
  #unpacking: Promise<unknown> = Promise.resolve();

  constructor(limits: HttpLimits) {
    this.#limits = limits;
  }

  async read(call: HttpCall, principal: string): Promise<JsonBody> {
    checkType(call.exchange.header("content-type"));
    const unpack = unpackerOf(call.exchange.header("content-encoding"));
    const { bodyBytesMax, bodyTimeoutMs } = this.#limits;
    let taken = 0;
    const take = (byteCount: number): void => {
      this.#take(principal, byteCount);
      taken += byteCount;
    };
    try {
      const packed = await call.readBody(bodyBytesMax, bodyTimeoutMs, take);
      if (unpack === undefined) return this.#parse(packed);
      return this.#parse(await call.wait(this.#unpack(packed, unpack)));
    } finally {
      this.#take(principal, -taken);
    }
  }

  #take(principal: string, byteCount: number): void {
    const own = (this.#held.get(principal) ?? 0) + byteCount;
    const { bodiesBytesMax } = this.#limits;
    if (byteCount > 0 && (own > bodiesBytesMax / 2 || this.#heldBytes + byteCount > bodiesBytesMax)) {
      throw new GatewayError({
        status: 429,
        type: "rate_limit_error",
        code: "bodies_limit",
        message: "Too many large requests are under way. Wait a moment and send it again.",
        retryAfterMs: 1_000,
      });
    }
    this.#heldBytes += byteCount;
    if (own === 0) this.#held.delete(principal);
    else this.#held.set(principal, own);
  }

  #unpack(packed: Uint8Array, unpack: Unpack): Promise<Uint8Array> {
    const { bodyBytesMax } = this.#limits;
    const unpacked = this.#unpacking.then(() => unpack(packed, { maxOutputLength: bodyBytesMax }));
    this.#unpacking = unpacked.catch(() => undefined);
    return unpacked.catch((cause: unknown) => {
      const isTooLarge =
        cause instanceof RangeError && "code" in cause && cause.code === "ERR_BUFFER_TOO_LARGE";
      throw new GatewayError({
        status: isTooLarge ? 413 : 400,
        type: "invalid_request_error",
        code: isTooLarge ? "request_too_large" : "invalid_encoding",
        message: isTooLarge
          ? `The request's body has more than ${bodyBytesMax} bytes once it is unpacked. Send less.`
          : "The request's body is not packed as its Content-Encoding says. Send it as it is.",
      });
    });
  }

  #parse(bytes: Uint8Array): JsonBody {
    try {
      checkJson(bytes, this.#limits.jsonValuesMax);
    } catch (cause) {
      if (cause instanceof HoldfastError) throw notJson(`The request's body is refused: ${cause.message}.`);
      throw cause;
    }
    const hash = createHash("sha256").update(bytes).digest("hex");
    try {
      const value: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
      return { value, hash };
    } catch {
      // The parser's own words repeat what was sent.
      throw notJson("The request's body is not valid JSON in UTF-8.");
    }
  }
}

const JSON_TYPE = /^application\/json(?:\s*;.*)?$/i;

function checkType(type: string | undefined): void {
  if (type !== undefined && JSON_TYPE.test(type.trim())) return;
  throw new GatewayError({
    status: 415,
    type: "invalid_request_error",
    code: "unsupported_media_type",
    message: "Send the request as JSON, with the header Content-Type: application/json.",
  });
}

function unpackerOf(encoding: string | undefined): Unpack | undefined {
  const name = encoding?.trim().toLowerCase() ?? "";
  if (name === "" || name === "identity") return undefined;
  const unpack = UNPACK.get(name);
  if (unpack !== undefined) return unpack;
  throw new GatewayError({
    status: 415,
    type: "invalid_request_error",
    code: "unsupported_encoding",
    message: `Content-Encoding may be one of ${[...UNPACK.keys()].join(", ")}, or absent.`,
  });
}

function notJson(message: string): GatewayError {
  return invalidRequest("body", message, "invalid_json");
}
