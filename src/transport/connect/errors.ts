/**
 * Our errors as Connect's, and back.
 *
 * Connect has sixteen codes for all services, so several of ours share one. Nothing is lost: our own `Error`
 * message rides along in `details`, and peers that know it read it. An error that does not carry it was not written by us
 * (a proxy, another server): then only what surely means the same is believed, and the rest is
 * `internal`, which is tried again within a budget and ends no healthy stream.
 */
import { firstChars } from "../../protocol/characters.ts";
import { given } from "../../protocol/given.ts";
import { encoded, fromBinary } from "../../protocol/message.ts";
import { errorCodeFromWire, HoldfastError, type WireCode, wireCodeOf } from "../../protocol/errors.ts";
import { fieldsOf } from "../../protocol/fields.ts";
import { errorInit } from "../../protocol/frame-codec.ts";
import { ErrorSchema } from "../../protocol/gen/holdfast/v1/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { decodeBase64, encodeBase64 } from "./base64.ts";

/** Connect's code, which its clients go by, and the status, which is for people, proxies and curl. */
const TOLD_AS: Readonly<Record<WireCode, readonly [connectCode: string, status: number]>> =
  /* @__PURE__ */ Object.freeze({
    invalid_frame: ["invalid_argument", 400],
    too_large: ["resource_exhausted", 413],
    not_found: ["not_found", 404],
    stream_ended: ["failed_precondition", 409],
    stream_failed: ["data_loss", 500],
    seqno_conflict: ["already_exists", 409],
    fenced: ["aborted", 409],
    unsupported_version: ["unimplemented", 501],
    seqno_gap: ["out_of_range", 409],
    event_gap: ["out_of_range", 409],
    connection_lost: ["canceled", 409],
    stream_gone: ["not_found", 410],
    events_gone: ["out_of_range", 410],
    event_ahead: ["out_of_range", 409],
    overloaded: ["resource_exhausted", 429],
    unavailable: ["unavailable", 503],
    internal: ["internal", 500],
    unauthenticated: ["unauthenticated", 401],
  });

/** What an error without our detail surely means. */
const BELIEVED: ReadonlyMap<unknown, WireCode> = new Map([
  ["unauthenticated", "unauthenticated"],
  ["resource_exhausted", "overloaded"],
  ["unavailable", "unavailable"],
  ["deadline_exceeded", "unavailable"],
]);

const STATUS_BELIEVED: ReadonlyMap<number, WireCode> = new Map([
  [401, "unauthenticated"],
  [429, "overloaded"],
  [502, "unavailable"],
  [503, "unavailable"],
  [504, "unavailable"],
]);

export function statusOf(error: HoldfastError): number {
  return TOLD_AS[wireCodeOf(error.code)][1];
}

/** The JSON object that Connect calls an error. */
export function connectErrorJson(error: HoldfastError): object {
  const detail = errorInit(error);
  const code = wireCodeOf(error.code);
  return {
    code: TOLD_AS[code][0],
    message: detail.message,
    details: [
      {
        type: ErrorSchema.typeName,
        value: encodeBase64(encoded(ErrorSchema, detail)),
        debug: { code, ...given({ retryAfterMs: error.retryAfterMs }) },
      },
    ],
  };
}

/** The last message of a streaming response. */
export function endOfStreamJson(error: HoldfastError | undefined): string {
  return error === undefined ? "{}" : JSON.stringify({ error: connectErrorJson(error) });
}

/** Reads the last message; undefined when the call went well. */
export function readEndOfStream(bytes: Uint8Array): HoldfastError | undefined {
  const json = parseObject(bytes);
  if (json === undefined) return new HoldfastError("internal", "the end of the response cannot be read");
  return json["error"] === undefined ? undefined : readConnectError(json["error"]);
}

/** Reads the body of a response whose status is not 200. */
export function readErrorResponse(
  status: number,
  body: Uint8Array,
  retryAfter: string | null | undefined,
): HoldfastError {
  const json = parseObject(body);
  const retryAfterMs = retryAfterOf(retryAfter);
  if (typeof json?.["code"] === "string") {
    const error = readConnectError(json);
    if (error.retryAfterMs !== undefined || retryAfterMs === undefined) return error;
    return new HoldfastError(error.code, error.message, { retryAfterMs });
  }
  const code = STATUS_BELIEVED.get(status) ?? "internal";
  return new HoldfastError(code, `the server answered with HTTP status ${status}`, { retryAfterMs });
}

export function readConnectError(json: unknown): HoldfastError {
  const { code, message, details } = fieldsOf(json);
  for (const detail of Array.isArray(details) ? details : []) {
    const error = readDetail(fieldsOf(detail));
    if (error !== undefined) return error;
  }
  const text = typeof message === "string" && message !== "" ? message : `the call failed: ${String(code)}`;
  return new HoldfastError(BELIEVED.get(code) ?? "internal", firstChars(text, LIMITS.messageCharsMax));
}

function readDetail({ type, value }: ReturnType<typeof fieldsOf>): HoldfastError | undefined {
  const bytes = type === ErrorSchema.typeName && typeof value === "string" ? decodeBase64(value) : undefined;
  if (bytes === undefined) return undefined;
  try {
    const { code, message, retryAfterMs } = fromBinary(ErrorSchema, bytes);
    return new HoldfastError(errorCodeFromWire(code), firstChars(message, LIMITS.messageCharsMax), {
      retryAfterMs,
    });
  } catch {
    // Not ours after all: the code of Connect still stands.
    return undefined;
  }
}

/** Seconds; a date, which the standard allows too, is not worth a guess about clocks. */
function retryAfterOf(header: string | null | undefined): number | undefined {
  const seconds = header === null || header === undefined ? Number.NaN : Number(header);
  return Number.isFinite(seconds) && seconds >= 0
    ? Math.min(Math.ceil(seconds * 1000), 0xffff_ffff)
    : undefined;
}

function parseObject(bytes: Uint8Array): ReturnType<typeof fieldsOf> | undefined {
  try {
    const json: unknown = JSON.parse(new TextDecoder().decode(bytes));
    return typeof json === "object" && json !== null ? fieldsOf(json) : undefined;
  } catch {
    return undefined;
  }
}
