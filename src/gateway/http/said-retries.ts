/**
 * What clients show of their retries. Some count their tries. Coding agents do not, but name their session: in one session they send the same
 * history twice only when they miss the answer to the first.
 *
 * Both also try again behind a refusal: then they say nothing about a response that was lost.
 */
import { hash } from "node:crypto";
import type { Exchange } from "../../transport/node/exchange.ts";
import type { RetrySign } from "../delivery.ts";
import { toGatewayError } from "../openai/index.ts";
import { CallEnded } from "./http-call.ts";

/** Longer than clients wait before they try again. */
const REFUSED_MS = 60_000;
const REFUSALS_MAX = 10_000;
const TRIES = /^[1-9]\d{0,8}$/;
/** Of Claude Code and of Codex. */
const SESSIONS = ["x-claude-code-session-id", "thread-id"] as const;

/** Who asked; the body's hash is empty when it was refused before it was read. */
export interface Asker {
  readonly principal: string;
  bodyHash: string;
}

export class SaidRetries {
  readonly #now: () => number;
  /** Until when, by the asker. */
  readonly #refused = new Map<string, number>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** The request came to nothing; `cause` is why. */
  refused(asker: Asker, cause: unknown): void {
    if (cause instanceof CallEnded && cause.why === "hung_up") return;
    const { status } = toGatewayError(cause);
    const isTriedAgain = status === 408 || status === 409 || status === 429 || status >= 500;
    if (!isTriedAgain) return;
    const name = nameOf(asker);
    this.#refused.delete(name);
    this.#refused.set(name, this.#now() + REFUSED_MS);
    const [oldest] = this.#refused.keys();
    if (this.#refused.size > REFUSALS_MAX && oldest !== undefined) this.#refused.delete(oldest);
  }

  signOf(request: Headed, asker: Asker): RetrySign {
    const isCounted = TRIES.test(request.header("x-stainless-retry-count") ?? "");
    if (!isCounted && clientSessionOf(request) === "") return "none";
    const names = [nameOf(asker), nameOf({ ...asker, bodyHash: "" })];
    if (names.some((name) => (this.#refused.get(name) ?? 0) > this.#now())) return "none";
    return isCounted ? "counted" : "repeated";
  }
}

type Headed = Pick<Exchange, "header">;

/** Equal bodies in two sessions of a client are two questions. */
export function hashInSession(request: Headed, bodyHash: string): string {
  const session = clientSessionOf(request);
  return session === "" ? bodyHash : hash("sha256", `${bodyHash} ${session}`);
}

function clientSessionOf(request: Headed): string {
  const name = SESSIONS.find((each) => request.header(each) !== undefined);
  return name === undefined ? "" : `${name} ${request.header(name)}`;
}

function nameOf({ principal, bodyHash }: Asker): string {
  return JSON.stringify([principal, bodyHash]);
}
