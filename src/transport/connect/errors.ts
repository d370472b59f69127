/**
 * Our errors as Connect's, and back.
 *
 * Connect has sixteen codes for everybody, so several of ours share one. Nothing is lost: our own `Error`
 * message rides along in `details`, and whoever knows it reads that. An error that does not carry it was not written by us
 * (a proxy, another server): then only what surely means the same is believed, and the rest is
 * `internal`, which is tried again within a budget and ends no healthy stream.
 */
import { given } from "../../protocol/given.ts";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  errorCodeFromWire,
  errorCodeToWire,
  HoldfastError,
  type WireCode,
  wireCodeOf,
} from "../../protocol/errors.ts";
import { ErrorSchema } from "../../protocol/gen/holdfast/v1/errors_pb.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { decodeBase64, encodeBase64 } from "./base64.ts";

interface Told {
  readonly connectCode: string;
  readonly status: number;
}

/** The status is for people, proxies and curl; Connect's clients go by the code. */
const TOLD_AS: Readonly<Record<WireCode, Told>> = Object.freeze({
  invalid_frame: { connectCode: "invalid_argument", status: 400 },
  too_large: { connectCode: "resource_exhausted", status: 413 },
  not_found: { connectCode: "not_found", status: 404 },
  stream_ended: { connectCode: "failed_precondition", status: 409 },
  stream_failed: { connectCode: "data_loss", status: 500 },
  seqno_conflict: { connectCode: "already_exists", status: 409 },
  fenced: { connectCode: "aborted", status: 409 },
  unsupported_version: { connectCode: "unimplemented", status: 501 },
  seqno_gap: { connectCode: "out_of_range", status: 409 },
  event_gap: { connectCode: "out_of_range", status: 409 },
  connection_lost: { connectCode: "canceled", status: 409 },
  stream_gone: { connectCode: "not_found", status: 410 },
  events_gone: { connectCode: "out_of_range", status: 410 },
  event_ahead: { connectCode: "out_of_range", status: 409 },
  overloaded: { connectCode: "resource_exhausted", status: 429 },
  unavailable: { connectCode: "unavailable", status: 503 },
  internal: { connectCode: "internal", status: 500 },
  unauthenticated: { connectCode: "unauthenticated", status: 401 },
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
  return TOLD_AS[wireCodeOf(error.code)].status;
}

/** The JSON object that Connect calls an error. */
export function connectErrorJson({ code: own, message, retryAfterMs }: HoldfastError): object {
  const code = wireCodeOf(own);
  const text = message.slice(0, LIMITS.messageCharsMax);
  const detail = create(ErrorSchema, {
    code: errorCodeToWire(code),
    message: text,
    ...given({ retryAfterMs }),
  });
  return {
    code: TOLD_AS[code].connectCode,
    message: text,
    details: [
      {
        type: ErrorSchema.typeName,
        value: encodeBase64(toBinary(ErrorSchema, detail)),
        debug: { code, ...given({ retryAfterMs }) },
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
  const error = property(json, "error");
  return error === undefined ? undefined : readConnectError(error);
}

/** Reads the body of a response whose status is not 200. */
export function readErrorResponse(
  status: number,
  body: Uint8Array,
  retryAfter: string | null | undefined,
): HoldfastError {
  const json = parseObject(body);
  const isConnect = json !== undefined && typeof property(json, "code") === "string";
  const retryAfterMs = retryAfterOf(retryAfter);
  if (isConnect) {
    const error = readConnectError(json);
    if (error.retryAfterMs !== undefined || retryAfterMs === undefined) return error;
    return new HoldfastError(error.code, error.message, { retryAfterMs });
  }
  const code = STATUS_BELIEVED.get(status) ?? "internal";
  return new HoldfastError(code, `the server answered with HTTP status ${status}`, { retryAfterMs });
}

export function readConnectError(json: unknown): HoldfastError {
  const details = property(json, "details");
  for (const detail of Array.isArray(details) ? details : []) {
    const error = readDetail(detail);
    if (error !== undefined) return error;
  }
  const code = property(json, "code");
  const message = property(json, "message");
  const text = typeof message === "string" && message !== "" ? message : `the call failed: ${String(code)}`;
  return new HoldfastError(BELIEVED.get(code) ?? "internal", text.slice(0, LIMITS.messageCharsMax));
}

function readDetail(detail: unknown): HoldfastError | undefined {
  const value = property(detail, "value");
  if (property(detail, "type") !== ErrorSchema.typeName || typeof value !== "string") return undefined;
  const bytes = decodeBase64(value);
  if (bytes === undefined) return undefined;
  try {
    const { code, message, retryAfterMs } = fromBinary(ErrorSchema, bytes);
    return new HoldfastError(errorCodeFromWire(code), message.slice(0, LIMITS.messageCharsMax), {
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

function parseObject(bytes: Uint8Array): object | undefined {
  try {
    const json: unknown = JSON.parse(new TextDecoder().decode(bytes));
    return typeof json === "object" && json !== null ? json : undefined;
  } catch {
    return undefined;
  }
}

function property(json: unknown, name: string): unknown {
  if (typeof json !== "object" || json === null || !Object.hasOwn(json, name)) return undefined;
  return new Map<string, unknown>(Object.entries(json)).get(name);
}
