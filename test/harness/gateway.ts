/**
 * The gateway that is played against, as a client sees it: chat requests, the models, what `/metrics` counts, and a restart if there is a way to one.
 *
 * Every request has a connection of its own: a client that asks again on the same connection has shown that it got the answer before.
 */
import { type IncomingMessage, request as http } from "node:http";
import { request as https } from "node:https";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { type Line, readReply, type Reply, tool } from "../gateway/openai-user.ts";

/** What stands in the way of playing at all, said in one line. */
export class CannotPlay extends Error {
  override readonly name = "CannotPlay";
}

/** Answers by how they came about, since the first look; undefined when `/metrics` is not shown. */
export type Counts = Readonly<Record<Way, number>>;
export const WAYS = ["continued_turn", "continued_conversation", "attached", "replayed", "fresh"] as const;
export type Way = (typeof WAYS)[number];

export interface GatewayOptions {
  readonly url: string;
  readonly apiKey: string;
  readonly model: string;
  /** Kills the server and sees to it that it runs again; undefined when there is no way. */
  readonly kill: (() => Promise<void>) | undefined;
  /** What reached the provider, as it says itself; undefined when only the server can be asked. */
  readonly providerCalls: (() => number) | undefined;
}

const PATIENCE_MS = 60_000;
const POLL_MS = 100;
const MODELS = z.object({ data: z.array(z.object({ id: z.string() })) });
const TOOLS = [tool("note"), tool("look")];

export class Gateway {
  readonly model: string;
  readonly canKill: boolean;
  /** No other client calls the provider: its count is this harness's own. */
  readonly isAlone: boolean;
  readonly #origin: string;
  readonly #options: GatewayOptions;
  /** Of processes that were killed: their counters are gone with them. */
  #carried: Counts = NONE;
  #carriedCalls = 0;

  constructor(options: GatewayOptions) {
    this.#options = options;
    // People give the base URL of their client, or the server's.
    this.#origin = options.url.replace(/\/+$/, "").replace(/\/v1$/, "");
    this.model = options.model;
    this.canKill = options.kill !== undefined;
    this.isAlone = options.providerCalls !== undefined;
  }

  /** Refuses with what to do when the URL, the API key or the model is wrong. */
  async check(): Promise<void> {
    const response = await fetch(`${this.#origin}/v1/models`, { headers: this.#headers }).catch(
      (cause: unknown) => {
        throw new CannotPlay(
          `nothing answers at ${this.#origin} (${reasonOf(cause)}); is the server running? Give its URL with --url`,
        );
      },
    );
    const text = await response.text();
    if (response.status === 401) {
      throw new CannotPlay("the API key is not accepted; give one with --api-key, or set HOLDFAST_API_KEY");
    }
    const listed = response.ok ? MODELS.safeParse(parsed(text)) : undefined;
    if (listed?.success !== true) {
      throw new CannotPlay(
        `${this.#origin}/v1/models answered ${response.status}, not a list of models; is this a Holdfast server?`,
      );
    }
    const ids = listed.data.data.map(({ id }) => id);
    if (ids.includes(this.model)) return;
    throw new CannotPlay(`there is no model ${this.model}; choose one with --model: ${ids.join(", ")}`);
  }

  ask(messages: readonly Line[], headers: Readonly<Record<string, string>> = {}): Asked {
    const body = JSON.stringify({ model: this.model, stream: true, tools: TOOLS, messages });
    return new Asked(`${this.#origin}/v1/chat/completions`, body, { ...this.#headers, ...headers });
  }

  async counts(): Promise<Counts | undefined> {
    const now = countsIn(await this.#metrics());
    return now === undefined ? undefined : added(this.#carried, now);
  }

  /** What reached providers; undefined when it is not shown to us. */
  async providerCalls(): Promise<number | undefined> {
    const { providerCalls } = this.#options;
    if (providerCalls !== undefined) return providerCalls();
    const metrics = await this.#metrics();
    if (!metrics.includes("holdfast_provider_requests_total")) return undefined;
    const counted = metrics.matchAll(/^holdfast_provider_requests_total\{.*\} (\d+)$/gm);
    return [...counted].reduce((sum, [, count]) => sum + Number(count), this.#carriedCalls);
  }

  /** Until the gateway has noticed that its clients hung up; at once when it does not say. */
  async allHungUp(): Promise<void> {
    const isOpen = async (): Promise<boolean> =>
      Number(/^holdfast_http_requests_open\{kind="gateway"\} (\d+)$/m.exec(await this.#metrics())?.[1] ?? 0) >
      0;
    for (const untilMs = Date.now() + PATIENCE_MS; Date.now() < untilMs && (await isOpen());)
      await sleep(POLL_MS);
  }

  /** Kills the server, and waits until it runs again. */
  async restart(): Promise<void> {
    const before = await this.counts();
    const callsBefore = await this.providerCalls();
    await this.#options.kill?.();
    this.#carried = before ?? NONE;
    this.#carriedCalls = callsBefore ?? 0;
    for (const untilMs = Date.now() + PATIENCE_MS; Date.now() < untilMs; await sleep(POLL_MS)) {
      const response = await fetch(`${this.#origin}/ready`).catch(() => undefined);
      await response?.arrayBuffer();
      if (response?.ok === true) return;
    }
    throw new CannotPlay(
      `the server at ${this.#origin} did not come up again within ${PATIENCE_MS / 1000} s after it was killed`,
    );
  }

  get #headers(): Readonly<Record<string, string>> {
    return { authorization: `Bearer ${this.#options.apiKey}`, "content-type": "application/json" };
  }

  /** Empty when it is not shown to us. */
  async #metrics(): Promise<string> {
    const response = await fetch(`${this.#origin}/metrics`, { headers: this.#headers });
    const text = await response.text();
    return response.ok ? text : "";
  }
}

/** One request, and what came of it. */
export class Asked {
  readonly #request;
  readonly #response: Promise<IncomingMessage | undefined>;
  readonly #over: Promise<void>;
  #text = "";
  #isEnded = false;
  #isOver = false;
  #news = Promise.withResolvers<void>();

  constructor(url: string, body: string, headers: Readonly<Record<string, string>>) {
    const request = url.startsWith("https:") ? https : http;
    this.#request = request(url, { method: "POST", headers, agent: false });
    this.#response = new Promise((resolve) => {
      this.#request.once("response", resolve);
      // A broken request is one without a response; the flow says what it expected instead.
      this.#request.on("error", () => resolve(undefined));
      this.#request.once("close", () => resolve(undefined));
    });
    this.#over = this.#read().finally(() => (this.#isOver = true));
    this.#request.end(body);
  }

  /** Waits until the response has these words; false when it ended without them. */
  async until(words: string): Promise<boolean> {
    while (!this.#text.includes(words) && !this.#isOver) await Promise.race([this.#news.promise, this.#over]);
    return this.#text.includes(words);
  }

  hangUp(): void {
    this.#request.destroy();
  }

  async reply(): Promise<Reply> {
    await this.#over;
    const response = await this.#response;
    const status = response?.statusCode ?? 0;
    const streamId = response?.headers["x-holdfast-stream"]?.toString() ?? "";
    return readReply(status === 0 ? "" : this.#text, { status, streamId, isEnded: this.#isEnded });
  }

  async #read(): Promise<void> {
    const response = await this.#response;
    if (response === undefined) return;
    response.setEncoding("utf8").on("data", (piece: string) => {
      this.#text += piece;
      this.#news.resolve();
      this.#news = Promise.withResolvers();
    });
    response.on("end", () => (this.#isEnded = true)).on("error", () => undefined);
    if (!response.closed) await new Promise((resolve) => response.once("close", resolve));
  }
}

const NONE: Counts = Object.freeze({
  continued_turn: 0,
  continued_conversation: 0,
  attached: 0,
  replayed: 0,
  fresh: 0,
});

function countsIn(metrics: string): Counts | undefined {
  if (!metrics.includes("holdfast_gateway_requests_total")) return undefined;
  const of = (way: Way): number =>
    [...metrics.matchAll(new RegExp(`^holdfast_gateway_requests_total\\{how="${way}"[^}]*\\} (\\d+)$`, "gm"))]
      .map(([, count]) => Number(count))
      .reduce((sum, count) => sum + count, 0);
  return { ...NONE, ...Object.fromEntries(WAYS.map((way) => [way, of(way)])) };
}

function added(a: Counts, b: Counts, sign = 1): Counts {
  return { ...NONE, ...Object.fromEntries(WAYS.map((way) => [way, a[way] + sign * b[way]])) };
}

export function since(before: Counts, after: Counts): Counts {
  return added(after, before, -1);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function reasonOf(cause: unknown): string {
  const below = cause instanceof Error ? cause.cause : undefined;
  if (below instanceof Error) return "code" in below ? String(below.code) : below.message;
  return cause instanceof Error ? cause.message : String(cause);
}
