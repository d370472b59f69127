/**
 * The gateway's HTTP on a real port of a real server, with scripted answers behind it.
 */
import assert from "node:assert/strict";
import { request as http1Request } from "node:http";
import { connect as http2Connect } from "node:http2";
import type { TestContext } from "node:test";
import { gatewayHttp, type HttpLimits } from "../../../src/gateway/http/index.ts";
import type { HttpOptions } from "../../../src/server/http/index.ts";
import {
  ALICE_KEY,
  type Answer,
  ask,
  type Asked,
  bearer,
  type HttpRig,
  readJson,
  startHttp,
  type Version,
} from "../../server/http/rig.ts";
import { ScriptedAnswers } from "./scripted-answers.ts";

export interface GatewayRig extends HttpRig {
  readonly answers: ScriptedAnswers;
}

export async function startGateway(
  t: TestContext,
  limits: Partial<HttpLimits> = {},
  http: Partial<HttpOptions> = {},
): Promise<GatewayRig> {
  const answers = new ScriptedAnswers();
  const rig = await startHttp(t, { http: { mounts: [gatewayHttp({ answers, limits })], ...http } });
  return { ...rig, answers };
}

export const CHAT = "/v1/chat/completions";
export const JSON_TYPE = { "content-type": "application/json" } as const;

export function chatBody(more: object = {}): string {
  return JSON.stringify({ model: "acme/one", messages: [{ role: "user", content: "hi" }], ...more });
}

/** A chat request, unless it is said otherwise. */
export function askChat(rig: HttpRig, version: Version, asked: Partial<Asked> = {}): Promise<Answer> {
  const { headers = {}, ...rest } = asked;
  return ask(rig, version, {
    method: "POST",
    path: CHAT,
    body: chatBody(),
    ...rest,
    headers: { ...bearer(ALICE_KEY), ...JSON_TYPE, ...headers },
  });
}

/** The `error` of an answer, which must be one in OpenAI's shape. */
export function errorOf(answer: Answer): Readonly<Record<"type" | "code" | "param" | "message", unknown>> {
  assert.equal(answer.headers["content-type"], "application/json");
  assert.match(String(answer.headers["x-request-id"]), /^[\w.:-]{1,128}$/);
  const body = readJson(answer.body);
  assert.deepEqual([...body.keys()], ["error"]);
  const error = readJson(JSON.stringify(body.get("error")));
  assert.deepEqual([...error.keys()].toSorted(), ["code", "message", "param", "type"]);
  const message = error.get("message");
  assert.ok(typeof message === "string" && message.length > 0);
  if (answer.status < 500) assert.notEqual(error.get("type"), "server_error");
  return { type: error.get("type"), code: error.get("code"), param: error.get("param"), message };
}

export interface SseFrame {
  readonly id: string | undefined;
  readonly data: string;
}

export function framesOf(body: string): SseFrame[] {
  return body
    .split("\n\n")
    .filter((block) => block !== "")
    .map((block) => ({
      id: /^id: (.*)$/m.exec(block)?.[1],
      data: /^data: (.*)$/m.exec(block)?.[1] ?? assert.fail(`no data in ${block}`),
    }));
}

/** The text of all deltas. */
export function contentOf(frames: readonly SseFrame[]): string {
  return frames.map(({ data }) => /"content":"([^"]*)"/.exec(data)?.[1] ?? "").join("");
}

/** A response that is read while it comes. */
export interface OpenResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  /** Everything so far. */
  readonly soFar: () => string;
  /** Resolves when what came holds the words, or rejects when the response ends without. */
  readonly until: (words: string) => Promise<string>;
  /** Resolves when the server has ended the response; rejects when it was broken off. */
  readonly ended: Promise<void>;
  readonly pause: () => void;
  readonly hangUp: () => void;
}

export async function openChat(
  t: TestContext,
  rig: HttpRig,
  version: Version,
  asked: { readonly method?: string; readonly path?: string; readonly headers?: Record<string, string> } = {},
): Promise<OpenResponse> {
  const { method = "POST", path = CHAT } = asked;
  const apiKey = asked.headers?.["x-api-key"] === undefined ? bearer(ALICE_KEY) : {};
  const headers = { ...apiKey, ...JSON_TYPE, ...asked.headers };
  const body = method === "POST" ? chatBody({ stream: true }) : undefined;
  if (version === 1) {
    const { promise, resolve, reject } = Promise.withResolvers<OpenResponse>();
    const request = http1Request({
      host: "127.0.0.1",
      port: rig.http.port,
      method,
      path,
      headers,
      agent: false,
    });
    t.after(() => request.destroy());
    request.on("error", reject);
    request.on("response", (response) => {
      const { statusCode = 0 } = response;
      const hangUp = (): void => void request.destroy();
      resolve({ status: statusCode, headers: response.headers, hangUp, ...follow(response, () => false) });
    });
    request.end(body);
    return promise;
  }
  const session = http2Connect(rig.http.url);
  session.on("error", () => undefined);
  t.after(() => session.destroy());
  const stream = session.request({ ...headers, ":method": method, ":path": path }, { endStream: false });
  const { promise, resolve, reject } = Promise.withResolvers<OpenResponse>();
  stream.on("error", reject);
  stream.on("response", (head) => {
    const hangUp = (): void => session.destroy();
    resolve({
      status: head[":status"] ?? 0,
      headers: head,
      hangUp,
      ...follow(stream, () => stream.rstCode !== 0),
    });
  });
  stream.end(body);
  return promise;
}

/** HTTP/2 says "end" to a reader of a response that was broken off, too. */
function follow(
  body: NodeJS.ReadableStream,
  isBroken: () => boolean,
): Pick<OpenResponse, "soFar" | "until" | "ended" | "pause"> {
  let text = "";
  let isOver = false;
  const listeners = new Set<() => void>();
  const changed = (): void => {
    for (const listener of listeners) listener();
  };
  const { promise: ended, resolve, reject } = Promise.withResolvers<void>();
  ended.catch(() => undefined);
  body.on("data", (piece: Buffer) => {
    text += piece.toString();
    changed();
  });
  body.on("end", () => (isBroken() ? reject(new Error("broken off")) : resolve()));
  body.on("error", (error: Error) => reject(error));
  body.on("close", () => {
    isOver = true;
    reject(new Error("broken off"));
    changed();
  });
  const until = (words: string): Promise<string> =>
    new Promise((found, missed) => {
      const look = (): void => {
        if (!text.includes(words) && !isOver) return;
        listeners.delete(look);
        if (text.includes(words)) found(text);
        else missed(new Error(`"${words}" never came, but: ${text}`));
      };
      listeners.add(look);
      look();
    });
  return { soFar: () => text, until, ended, pause: () => void body.pause() };
}
