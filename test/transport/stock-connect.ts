/** What the tests with stock Connect clients say and hear. */
import assert from "node:assert/strict";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorSchema } from "../../src/protocol/gen/holdfast/v1/errors_pb.ts";
import {
  AttachMode,
  Role,
  type StreamRequestSchema,
  type StreamResponse,
} from "../../src/protocol/gen/holdfast/v1/stream_pb.ts";

export const KEY = "stream-1";
export const headers = {
  authorization: "Bearer alice",
  "x-idempotency-key": KEY,
  "x-idempotent-encryption-key": Buffer.alloc(32, 7).toString("base64url"),
};

export type Request = MessageInitShape<typeof StreamRequestSchema>;

export function attach(mode: "OPEN" | "RESUME", eventId = "0", idempotencyKey = KEY): Request {
  const value = {
    protocolVersion: 1,
    mode: AttachMode[mode],
    role: Role.WRITER,
    eventId,
    journalId: "stock",
  };
  return { idempotencyKey, request: { case: "attach", value } };
}

export function chunk(seqno: number, text: string, writerEpoch = 1): Request {
  return { request: { case: "clientChunk", value: Buffer.from(text) }, seqno, writerEpoch };
}

/** Requests that are said one by one, for the sending half of a bidirectional call. */
export class Says implements AsyncIterable<Request> {
  readonly #waiting: Request[] = [];
  #wake: () => void = () => undefined;
  #isOver = false;

  say(...requests: Request[]): void {
    this.#waiting.push(...requests);
    this.#wake();
  }

  finish(): void {
    this.#isOver = true;
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Request> {
    for (;;) {
      const next = this.#waiting.shift();
      if (next !== undefined) yield next;
      else if (this.#isOver) return;
      else await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }
}

/** Messages as they come. */
export class Hears<Message> {
  readonly #messages: AsyncIterator<Message, unknown>;

  constructor(messages: AsyncIterable<Message>) {
    this.#messages = messages[Symbol.asyncIterator]();
  }

  /** Undefined at the end. */
  async next(): Promise<Message | undefined> {
    const result = await this.#messages.next();
    return result.done === true ? undefined : result.value;
  }
}

/** Reads frames until one is as wanted; what comes before it is passed over. */
export async function next<Case extends StreamResponse["response"]["case"]>(
  frames: Hears<StreamResponse>,
  wanted: Case,
): Promise<Extract<StreamResponse["response"], { case: Case }>> {
  for (;;) {
    const frame = await frames.next();
    assert.ok(frame !== undefined, `the response ended before there was a ${wanted}`);
    if (isCase(frame.response, wanted)) return frame.response;
  }
}

function isCase<Case extends StreamResponse["response"]["case"]>(
  response: StreamResponse["response"],
  wanted: Case,
): response is Extract<StreamResponse["response"], { case: Case }> {
  return response.case === wanted;
}

export async function nextEvent(frames: Hears<StreamResponse>): Promise<string> {
  const { value } = await next(frames, "serverChunk");
  return `${value.eventId} ${Buffer.from(value.message).toString()}`;
}

/** Reads to the end. */
export async function failure(frames: Hears<unknown>): Promise<ConnectError> {
  try {
    for (;;) {
      const frame = await frames.next();
      assert.notEqual(frame, undefined, "the call should have failed");
    }
  } catch (error) {
    assert.ok(error instanceof ConnectError, String(error));
    return error;
  }
}

/** Our own code rides along in the details. */
export function ownCode(error: ConnectError): {
  connect: string;
  own: number | undefined;
  retryAfterMs: number | undefined;
} {
  const [detail] = error.findDetails(ErrorSchema);
  return { connect: Code[error.code], own: detail?.code, retryAfterMs: detail?.retryAfterMs };
}
