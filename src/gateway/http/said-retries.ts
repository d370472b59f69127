/**
 * Clients that count their tries say when a request is a retry. They count refusals as well: behind one of those, the count says
 * nothing about a response that was lost.
 */
import type { Exchange } from "../../transport/node/exchange.ts";
import { toGatewayError } from "../openai/index.ts";
import { CallEnded } from "./http-call.ts";

/** Longer than clients wait before they try again. */
const REFUSED_MS = 60_000;
const REFUSALS_MAX = 10_000;
const TRIES = /^[1-9]\d{0,8}$/;

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

  isRetry(exchange: Pick<Exchange, "header">, asker: Asker): boolean {
    if (!TRIES.test(exchange.header("x-stainless-retry-count") ?? "")) return false;
    const names = [nameOf(asker), nameOf({ ...asker, bodyHash: "" })];
    return names.every((name) => (this.#refused.get(name) ?? 0) <= this.#now());
  }
}

function nameOf({ principal, bodyHash }: Asker): string {
  return JSON.stringify([principal, bodyHash]);
}
