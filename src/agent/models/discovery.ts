/**
 * The models that an OpenAI-compatible server says it has (`GET /models`).
 *
 * A server without this call works all the same: it names none. One that does not answer, or refuses, is a failure as of any
 * other call to it, with its own words.
 */
import { APICallError } from "@ai-sdk/provider";
import { modelNameOf } from "../../protocol/model-name.ts";
import type { Fetch, HttpProvider } from "./providers.ts";
import { ProviderBreak } from "./upstream/provider-break.ts";
import { Redirected } from "./upstream/redirects.ts";

/** A server that is there answers at once. */
export const ANSWER_MS_MAX = 2_000;
const NAMES_MAX = 1_000;
/** Far more than a list of so many names takes. */
const ANSWER_BYTES_MAX = 4 * 1024 * 1024;
/** It does not have the call. */
const UNKNOWN_CALL: ReadonlySet<number> = new Set([404, 405, 501]);

/** Rejects with what `judge` of `failures.ts` understands. */
export async function discoverNames(
  { baseURL, headers }: HttpProvider,
  apiKey: string | undefined,
  { fetch, answerMsMax }: { readonly fetch: Fetch; readonly answerMsMax: number },
): Promise<readonly string[]> {
  const authorization = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
  const url = `${baseURL.replace(/\/+$/, "")}/models`;
  const signal = AbortSignal.timeout(answerMsMax);
  const failed = (cause: unknown): unknown => {
    if (cause instanceof Redirected) return cause;
    if (signal.aborted) return new ProviderBreak({ phase: "first", why: "stall", tokens: {} }, answerMsMax);
    return new APICallError({ message: "no connection", url, requestBodyValues: {}, cause });
  };
  try {
    const response = await fetch(url, { headers: new Headers({ ...authorization, ...headers }), signal });
    const body = await limitedText(response);
    if (response.ok) return namesIn(parsed(body));
    if (UNKNOWN_CALL.has(response.status)) return [];
    throw new APICallError({
      message: "refused",
      url,
      requestBodyValues: {},
      statusCode: response.status,
      responseHeaders: Object.fromEntries(response.headers),
      responseBody: body,
    });
  } catch (error) {
    throw APICallError.isInstance(error) ? error : failed(error);
  }
}

/** Rejects at the first piece that is too much: a server that never stops speaking fills no memory. */
async function limitedText(response: Response): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  const body: AsyncIterable<Uint8Array> | undefined = response.body ?? undefined;
  if (body === undefined) return "";
  for await (const piece of body) {
    bytes += piece.length;
    if (bytes > ANSWER_BYTES_MAX)
      throw new Error(`its list of models has more than ${ANSWER_BYTES_MAX} bytes`);
    text += decoder.decode(piece, { stream: true });
  }
  return text + decoder.decode();
}

/** What is no JSON names no models. */
function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

function namesIn(answer: unknown): readonly string[] {
  const data = typeof answer === "object" && answer !== null && "data" in answer ? answer.data : undefined;
  if (!Array.isArray(data)) return [];
  const names = data.flatMap((one: unknown) => {
    const id = typeof one === "object" && one !== null && "id" in one ? one.id : undefined;
    const name = typeof id === "string" ? modelNameOf(id) : undefined;
    return name === undefined ? [] : [name];
  });
  return [...new Set(names)].slice(0, NAMES_MAX);
}
