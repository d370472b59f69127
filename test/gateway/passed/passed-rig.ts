/**
 * The gateway's HTTP on a real port, and a provider on another that keeps what it was sent to the byte.
 */
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { TestContext } from "node:test";
import { ModelFailure } from "../../../src/agent/index.ts";
import { createModels, type ProviderModels, type ProviderType } from "../../../src/agent/models/index.ts";
import { providerSide } from "../../../src/node/provider-side.ts";
import { gatewayHttp, type Limits, type ProviderSide } from "../../../src/gateway/http/index.ts";
import type { PassedLimits } from "../../../src/gateway/passed/passed-limits.ts";
import { portOf } from "../../agent/models/providers/server.ts";
import { authenticate, type HttpRig, startHttp } from "../../server/http/rig.ts";
import { ScriptedAnswers } from "../http/scripted-answers.ts";

/** It must never come out anywhere but at the provider. */
export const PROVIDER_KEY = "sk-canary-5d41402abc4b2a76";

export interface Received {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** As far as it has come. */
  body: Buffer;
  isWhole: boolean;
}

export type Reply = (response: ServerResponse, received: Received) => void | Promise<void>;

export class RawProvider {
  readonly received: Received[] = [];
  readonly origin: string;

  private constructor(origin: string) {
    this.origin = origin;
  }

  /** `isEager`: it answers before it has the whole body. */
  static async start(t: TestContext, reply: Reply, { isEager = false } = {}): Promise<RawProvider> {
    const server = createServer(
      (request, response) => void provider.#take(request, response, reply, isEager),
    );
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const provider = new RawProvider(`http://127.0.0.1:${portOf(server)}`);
    t.after(async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    });
    return provider;
  }

  async #take(
    request: IncomingMessage,
    response: ServerResponse,
    reply: Reply,
    isEager: boolean,
  ): Promise<void> {
    const { url = "", headers } = request;
    const received: Received = { path: url, headers, body: Buffer.alloc(0), isWhole: false };
    this.received.push(received);
    request.on("error", () => undefined);
    request.on("data", (piece: Buffer) => (received.body = Buffer.concat([received.body, piece])));
    request.on("end", () => (received.isWhole = true));
    if (isEager) void reply(response, received);
    await once(request, "end").catch(() => undefined);
    if (!isEager && received.isWhole) await reply(response, received);
  }
}

export const says =
  (body: string, headers: Readonly<Record<string, string>> = {}, status = 200): Reply =>
  (response) => {
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(body);
  };

/** The models of one provider, `lab`, which speaks as it is told. */
export function modelsAt(baseURL: string, type: ProviderType = "openai-compatible"): ProviderModels {
  return createModels({
    providers: { lab: { type, baseURL, apiKeyEnv: "LAB_KEY" } },
    environment: { LAB_KEY: PROVIDER_KEY },
  });
}

class PassingAnswers extends ScriptedAnswers {
  readonly #models: ProviderModels;

  constructor(models: ProviderModels) {
    super();
    this.#models = models;
  }

  override modelId(name: string): string | undefined {
    try {
      return this.#models.resolve(name).id;
    } catch (error) {
      if (error instanceof ModelFailure) return undefined;
      throw error;
    }
  }
}

export interface PassingOptions {
  readonly limits?: Limits;
  readonly passedLimits?: Partial<PassedLimits>;
  /** Default: the models' own. */
  readonly providers?: ProviderSide;
}

export function startPassing(
  t: TestContext,
  models: ProviderModels,
  { limits, passedLimits = {}, providers = providerSide(models) }: PassingOptions = {},
): Promise<HttpRig> {
  const answers = new PassingAnswers(models);
  const mounts = [gatewayHttp({ answers, providers, passedLimits })];
  const signIn = async (apiKey: string | undefined) => {
    const { principal } = await authenticate(apiKey);
    return { principal, apiKeyId: principal, limits };
  };
  return startHttp(t, { http: { mounts, authenticate: signIn } });
}
