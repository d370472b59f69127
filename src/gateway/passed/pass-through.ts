/**
 * Requests that are no conversation (embeddings, audio, images, ...) on their way to the model's provider and back.
 *
 * People set one base URL. What has no turn needs no stream and no session: the body goes up and the answer comes down as they are, but for the model's
 * name, which is the provider's own, and for the headers, of which few cross. No redirect is followed: the other host would get the API key.
 *
 * Invariant: the client's credentials never go up, and the provider's never come down.
 */
import { type ClientRequest, type IncomingMessage, request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import type { HttpCall } from "../http/http-call.ts";
import type { PassTarget } from "../http/provider-side.ts";
import { GatewayError } from "../openai/index.ts";
import { headersDown, headersUp } from "./passed-headers.ts";
import type { PassedBody } from "./passed-body.ts";
import type { PassedLimits } from "./passed-limits.ts";

interface Passing {
  readonly call: HttpCall;
  readonly body: PassedBody;
  readonly target: PassTarget;
  readonly limits: PassedLimits;
  /** Sees all of an answer that is passed on. */
  readonly onPiece: (piece: Uint8Array) => void;
}

/** Resolves when the answer is complete. Rejects with the error for the client. */
export async function passThrough({ call, body, target, limits, onPiece }: Passing): Promise<void> {
  const length = body.lengthWith(target.model);
  const headers = {
    ...headersUp(call.exchange),
    ...target.headers,
    ...(length === undefined ? {} : { "content-length": String(length) }),
  };
  const send = target.url.protocol === "https:" ? httpsRequest : httpRequest;
  const request = send(target.url, { method: "POST", headers, signal: call.signal, agent: false });
  const answered = headOf(request, limits.headMs);
  // The first failure is reported; the other one follows from it.
  answered.catch(() => undefined);
  try {
    body.sendTo(request, target.model);
    const answer = await call.wait(Promise.race([answered, body.sent.then(() => answered)]));
    if (answer.statusCode === undefined || answer.statusCode >= 300) {
      await refused(call, answer, target, limits);
      return;
    }
    await call.wait(body.sent);
    await handDown(call, answer, limits, onPiece);
  } finally {
    request.destroy();
  }
}

function headOf(request: ClientRequest, headMs: number): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const timer = setTimeout(() => reject(unreachable(504, "has not answered in time")), headMs);
  request.once("response", resolve);
  request.on("error", () => reject(unreachable(503, "cannot be reached")));
  return promise.finally(() => clearTimeout(timer));
}

async function handDown(
  call: HttpCall,
  answer: IncomingMessage,
  limits: PassedLimits,
  onPiece: Passing["onPiece"],
): Promise<void> {
  if ((answer.headers["content-encoding"] ?? "identity") !== "identity")
    throw unreachable(424, "packs its answer although it was asked not to");
  call.begin(answer.statusCode ?? 200, headersDown(answer.headers));
  let byteCount = 0;
  for await (const piece of piecesOf(answer, limits.silenceMs)) {
    byteCount += piece.length;
    onPiece(piece);
    if (byteCount > limits.answerBytesMax) throw unreachable(503, "says more than is passed on");
    const room = call.write(piece);
    if (room !== undefined) await room;
  }
  // A message that was cut ends its iteration as if it were whole.
  if (!answer.complete) throw unreachable(503, "broke off its answer");
  call.finish();
}

async function* piecesOf(answer: IncomingMessage, silenceMs: number): AsyncGenerator<Uint8Array> {
  answer.setTimeout(silenceMs, () => answer.destroy(unreachable(504, "has fallen silent")));
  try {
    for await (const piece of answer) if (piece instanceof Uint8Array) yield piece;
  } catch (cause) {
    throw cause instanceof GatewayError ? cause : unreachable(503, "broke off its answer");
  }
}

const ERROR_BYTES_MAX = 64 * 1024;

/** What the provider says when it refuses is the client's to read, without what it says of the API key. */
async function refused(
  call: HttpCall,
  answer: IncomingMessage,
  { provider, secrets }: PassTarget,
  { silenceMs }: PassedLimits,
): Promise<void> {
  const status = answer.statusCode ?? 502;
  if (status < 400) {
    const message = `${provider} answers with a redirect (${status}), and redirects are not followed. The server's operator sets its baseURL to the address that is meant.`;
    throw new GatewayError({ status: 424, type: "upstream_error", code: "upstream_redirects", message });
  }
  if (status === 401 || status === 403) {
    const message = `${provider} refuses this server's API key (${status}). The server's operator has to check it.`;
    throw new GatewayError({
      status: 424,
      type: "upstream_error",
      code: "upstream_unauthenticated",
      message,
    });
  }
  const text = await call.wait(textOf(answer, silenceMs));
  const clean = secrets.reduce((all, secret) => all.replaceAll(secret, "***"), text);
  const isPlain = (answer.headers["content-encoding"] ?? "identity") === "identity";
  if (!isPlain || clean === "") throw unreachable(status >= 500 ? 503 : 424, `refuses it (${status})`);
  call.respond(status, headersDown(answer.headers), clean);
}

async function textOf(answer: IncomingMessage, silenceMs: number): Promise<string> {
  const pieces: Uint8Array[] = [];
  let byteCount = 0;
  for await (const piece of piecesOf(answer, silenceMs)) {
    byteCount += piece.length;
    if (byteCount > ERROR_BYTES_MAX) break;
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString();
}

function unreachable(status: number, what: string): GatewayError {
  const type = status >= 500 ? "server_error" : "upstream_error";
  return new GatewayError({
    status,
    type,
    code: "provider_unavailable",
    message: `The model's provider ${what}. Try again.`,
    retryAfterMs: status >= 500 ? 1_000 : undefined,
  });
}
