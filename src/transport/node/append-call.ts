/**
 * `Append`: the sending half, as one small request.
 *
 * Finds the connection, hands the frames over, and answers when they are durable or with the reason why not. Nothing is
 * attached under the tag: `connection_lost`, and the client attaches again.
 */
import {
  type Append,
  APPEND_BYTES_MAX,
  type AppendOutcome,
  decodeAppend,
  encodeAppendOutcome,
} from "../../protocol/append-codec.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { invalidFrame } from "../../protocol/frame-check.ts";
import { AppendRequestSchema, AppendResponseSchema } from "../../protocol/gen/holdfast/v1/stream.ts";
import type { AcceptedMeta } from "../transport.ts";
import { contentType, type Format } from "../connect/formats.ts";
import { fromWireFormat, toWireFormat } from "./wire-format.ts";
import type { CallContext } from "./call-context.ts";
import { checkEventId } from "./call-head.ts";
import { type Exchange, readBody, respondWith } from "./exchange.ts";
import { SplitConnection } from "./split-connection.ts";

/** The largest append over a slow mobile link. */
const BODY_TIMEOUT_MS = 60_000;

/** Rejects with what is wrong with the request itself. */
export async function serveAppend(
  exchange: Exchange,
  meta: AcceptedMeta,
  format: Format,
  context: CallContext,
): Promise<void> {
  const append = await readAppend(exchange, meta, format, context);
  const connection =
    append.listener === "" ? found(meta, append, context) : joined(exchange, meta, append, context);
  const outcome =
    connection instanceof HoldfastError ? { error: connection } : await handOver(connection, append);
  const message = toWireFormat(format, AppendResponseSchema, encodeAppendOutcome(outcome));
  respondWith(exchange, 200, { "content-type": contentType(format, "unary") }, message);
}

/** Within the memory that appends may take; what becomes of the frames afterwards is bounded by their stream. */
async function readAppend(
  exchange: Exchange,
  { principal, idempotencyKey }: AcceptedMeta,
  format: Format,
  { bodies }: CallContext,
): Promise<Append> {
  const bytesMax = format === "proto" ? APPEND_BYTES_MAX : Math.ceil((APPEND_BYTES_MAX * 4) / 3);
  let taken = 0;
  const take = (byteCount: number): void => {
    bodies.take(principal, byteCount);
    taken += byteCount;
  };
  try {
    const body = await readBody(exchange, { bytesMax, timeoutMs: BODY_TIMEOUT_MS, take });
    const append = decodeAppend(fromWireFormat(format, AppendRequestSchema, body));
    if (append.idempotencyKey !== idempotencyKey) {
      throw invalidFrame("the append and its headers name different streams");
    }
    return append;
  } finally {
    bodies.giveBack(principal, taken);
  }
}

function handOver(connection: SplitConnection, append: Append): Promise<AppendOutcome> {
  const { promise, resolve } = Promise.withResolvers<AppendOutcome>();
  connection.append(append.frames, resolve);
  if (append.detach) connection.detach();
  return promise;
}

function found(
  meta: AcceptedMeta,
  append: Append,
  { connections }: CallContext,
): SplitConnection | HoldfastError {
  const connection = connections.find(meta, append.connectionTag);
  // A wrong stream key finds what no tag would find (E1).
  return (
    connection ?? new HoldfastError("connection_lost", "nothing is attached under this tag; attach again")
  );
}

function joined(
  exchange: Exchange,
  meta: AcceptedMeta,
  append: Append,
  { accept, connections, listeners }: CallContext,
): SplitConnection | HoldfastError {
  const [attach] = append.frames;
  if (attach?.kind === "attach") checkEventId(exchange, attach);
  const listener = listeners.find(meta.principal, append.listener);
  if (listener === undefined) {
    return new HoldfastError("connection_lost", "there is no such listener; listen again");
  }
  const outlet = listener.outlet(append.connectionTag);
  const connection = new SplitConnection(meta, append.connectionTag, outlet, accept, () => {
    connections.remove(connection);
    listener.leave(connection);
  });
  connections.add(connection);
  listener.join(connection);
  return connection;
}
