/**
 * Who is signed in: an API key that this browser keeps for this server.
 *
 * The link that a server prints has a one-time token behind its `#`. It is taken out of the address bar before anything else happens, and is exchanged for
 * an API key only when this browser has none that is good. A server that is away is no reason to ask again: the page opens with the key that it has.
 */

/** Where the page and its server are, also where they are mounted under a path of another server. */
export const BASE = new URL(".", location.href.replace(/#.*$/, "")).href;

const PLACE = `holdfast api key ${BASE}`;

/** The token of the link by which the page was opened, once. */
function takeToken(): string | undefined {
  const token = /^#sign-in=(?<token>[\w-]+)$/.exec(location.hash)?.groups?.["token"];
  if (token !== undefined) history.replaceState(null, "", location.pathname + location.search);
  return token;
}

export function keptKey(): string | undefined {
  return localStorage.getItem(PLACE) ?? undefined;
}

export function keepKey(apiKey: string): void {
  localStorage.setItem(PLACE, apiKey);
}

export function forgetKey(): void {
  localStorage.removeItem(PLACE);
}

export type Verdict = "good" | "refused" | "away";

/** Whether the server takes this API key. */
export async function judgeKey(apiKey: string): Promise<Verdict> {
  try {
    const { status } = await fetch(new URL("v1/models", BASE), { headers: bearer(apiKey) });
    return status === 401 || status === 403 ? "refused" : "good";
  } catch {
    return "away";
  }
}

/** The API key for a token; undefined when the token is not good any more. Rejects when the server is away. */
async function exchange(token: string): Promise<string | undefined> {
  const response = await fetch(new URL("sign-in", BASE), { method: "POST", headers: bearer(token) });
  if (!response.ok) return undefined;
  const said: unknown = await response.json();
  const isKey = typeof said === "object" && said !== null && "apiKey" in said;
  return isKey && typeof said.apiKey === "string" ? said.apiKey : undefined;
}

export interface Entrance {
  readonly apiKey: string | undefined;
  /** Why there is none, for people. */
  readonly reason: string;
}

/** As the page opens. */
export async function enter(): Promise<Entrance> {
  const token = takeToken();
  const kept = keptKey();
  const verdict = kept === undefined ? "refused" : await judgeKey(kept);
  if (verdict !== "refused") return { apiKey: kept, reason: "" };
  try {
    const apiKey = token === undefined ? undefined : await exchange(token);
    if (apiKey !== undefined) keepKey(apiKey);
    return { apiKey, reason: apiKey === undefined ? reasonOf(token, kept) : "" };
  } catch {
    return { apiKey: undefined, reason: "The server does not answer. Is it running?" };
  }
}

function reasonOf(token: string | undefined, kept: string | undefined): string {
  if (token !== undefined) return "This link was used before, or is older than ten minutes.";
  return kept === undefined ? "" : "The server does not know this browser any more.";
}

export function bearer(secret: string): Readonly<Record<string, string>> {
  return { authorization: `Bearer ${secret}` };
}
