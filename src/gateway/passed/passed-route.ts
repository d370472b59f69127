/**
 * The routes that are passed on: from a signed-in request to its model's provider, or a refusal that names the route.
 */
import { mayUse, modelNotFound } from "../http/allowances.ts";
import type { BodyMemory } from "../http/body-memory.ts";
import type { HttpCall } from "../http/http-call.ts";
import type { Guest } from "../http/mounted.ts";
import type { ProviderSide } from "../http/provider-side.ts";
import { GatewayError } from "../openai/index.ts";
import { mayAsk, payerOf, type Spending } from "../spending.ts";
import { finderFor } from "./body-types.ts";
import { passThrough } from "./pass-through.ts";
import { PassedBody } from "./passed-body.ts";
import { PASSED_LIMITS, type PassedLimits } from "./passed-limits.ts";
import { ReportedTokens } from "./reported-tokens.ts";

export interface PassedRouteOptions {
  readonly providers: ProviderSide;
  readonly memory: BodyMemory;
  /** Every name by which an API key may be allowed the model that a client names. */
  readonly namesOf: (name: string) => readonly string[];
  readonly limits?: Partial<PassedLimits> | undefined;
  readonly spending?: Pick<Spending, "waitMs" | "spend"> | undefined;
}

export class PassedRoute {
  readonly #options: PassedRouteOptions;
  readonly #limits: PassedLimits;
  #underWay = 0;

  constructor(options: PassedRouteOptions) {
    this.#options = options;
    this.#limits = { ...PASSED_LIMITS, ...options.limits };
  }

  /** Resolves when the answer is complete. Rejects with the error for the client. */
  async serve(call: HttpCall, guest: Guest, path: string): Promise<void> {
    if (this.#underWay >= this.#limits.atOnceMax) throw tooMany();
    this.#underWay++;
    call.onOver(() => this.#underWay--);
    const { providers, memory: shared, namesOf, spending } = this.#options;
    const payer = payerOf({ apiKeyId: guest.apiKeyId, tokensPerDay: guest.limits?.tokensPerDay });
    await call.wait(mayAsk(spending, payer));
    const { bodyBytesMax: bytesMax, bodyTimeoutMs: timeoutMs } = this.#limits;
    if ((call.exchange.header("content-encoding") ?? "identity") !== "identity") throw packed();
    const finder = finderFor(call.exchange.header("content-type"));
    const memory = shared.begin(guest.principal);
    const body = new PassedBody(call, finder, { bytesMax, timeoutMs, memory });
    const { name } = await call.wait(body.model);
    const names = namesOf(name);
    if (!mayUse(guest.limits, names)) throw modelNotFound();
    const target = providers.target(names[0] ?? name, path);
    if ("refusal" in target) throw notPassed(path, target.refusal);
    const reported = new ReportedTokens();
    await passThrough({ call, body, target, limits: this.#limits, onPiece: (piece) => reported.take(piece) });
    if (payer !== undefined) await spending?.spend(payer.apiKeyId, reported.tokens);
  }
}

function notPassed(path: string, why: string): GatewayError {
  return new GatewayError({
    status: 404,
    type: "invalid_request_error",
    code: "route_not_served",
    param: "model",
    message: `POST ${path} is passed on to the provider of the model that it names. ${why}`,
  });
}

function packed(): GatewayError {
  return new GatewayError({
    status: 415,
    type: "invalid_request_error",
    code: "unsupported_encoding",
    message: "What is passed on to a provider is sent as it is: leave Content-Encoding out.",
  });
}

function tooMany(): GatewayError {
  return new GatewayError({
    status: 429,
    type: "rate_limit_error",
    code: "passed_limit",
    message: "Too many requests are on their way to providers. Wait a moment and send it again.",
    retryAfterMs: 1_000,
  });
}
