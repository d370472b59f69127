/**
 * The models that an OpenAI-compatible server says it has (`GET /models`).
 *
 * Only for lists and defaults: a server without this call works all the same, so that whatever goes wrong means "none".
 */
import { modelNameOf } from "../../protocol/model-name.ts";
import type { Fetch, HttpProvider } from "./providers.ts";

/** A server that is there answers at once. */
export const ANSWER_MS_MAX = 2_000;
const NAMES_MAX = 1_000;

export async function discoverNames(
  { baseURL, headers }: HttpProvider,
  apiKey: string | undefined,
  { fetch, answerMsMax }: { readonly fetch: Fetch; readonly answerMsMax: number },
): Promise<readonly string[]> {
  const authorization = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
  try {
    const response = await fetch(`${baseURL.replace(/\/+$/, "")}/models`, {
      headers: { ...authorization, ...headers },
      signal: AbortSignal.timeout(answerMsMax),
    });
    return response.ok ? namesIn(await response.json()) : [];
  } catch {
    // Not there, or not speaking this: its models can be named all the same.
    return [];
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
