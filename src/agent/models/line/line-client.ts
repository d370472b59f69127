/**
 * How a server reaches its line: finds or starts it when it is needed, says words to it, and knows its counts.
 *
 * Everything works without a line. When there can be none, or it has gone, calls are sent from this process and end with it.
 */
import { Agent, type ClientRequest, request } from "node:http";
import { text } from "node:stream/consumers";
import {
  EPOCH_HEADER,
  fieldsIn,
  type HeldCall,
  heldIn,
  HEADER_BYTES_MAX,
  type LineCounts,
  SECRET_HEADER,
  type Word,
} from "./line-wire.ts";

/** Where a line listens, and what it wants to hear. */
export interface LinePlace {
  readonly socketPath: string;
  readonly secret: string;
}

/** Finds the line, and starts it when there is none; undefined when there can be none. */
export type EnsureLine = () => Promise<LinePlace | undefined>;

/** A line that could not be started is not tried again before. */
const AGAIN_MS = 10_000;

export interface LineRequest {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly hostEpoch: number;
}

export class LineClient {
  readonly #ensure: EnsureLine;
  readonly #agent = new Agent({ keepAlive: true });
  #place: Promise<LinePlace | undefined> | undefined;
  #stay: ClientRequest | undefined;
  #counts: LineCounts = { calls: 0, bytes: 0, reattached: 0, expired: 0 };
  /** Of the lines before this one. */
  #before = { reattached: 0, expired: 0 };
  /** Calls that this process reads, with its epoch. */
  readonly #open = new Map<string, number>();
  #isClosed = false;

  constructor(ensure: EnsureLine) {
    this.#ensure = ensure;
  }

  /** Never rejects. */
  place(): Promise<LinePlace | undefined> {
    this.#place ??= this.#find();
    return this.#place;
  }

  async #find(): Promise<LinePlace | undefined> {
    const place = this.#isClosed ? undefined : await this.#ensure();
    if (place === undefined) setTimeout(() => (this.#place = undefined), AGAIN_MS).unref();
    else this.#stayWith(place);
    return place;
  }

  /** The line stays while this request does, and counts itself on it. */
  #stayWith(place: LinePlace): void {
    const stay = this.open(place, { method: "GET", path: "/stay", hostEpoch: 0 });
    this.#stay = stay;
    stay.on("response", (response) => {
      response.setEncoding("utf8").on("data", (said: string) => this.#count(said));
      response.on("error", () => undefined);
      response.on("close", () => this.#lose());
    });
    stay.on("error", () => this.#lose());
    stay.on("socket", (socket) => socket.unref());
    stay.end();
  }

  #count(said: string): void {
    const last = said.trim().split("\n").at(-1) ?? "";
    const { calls, bytes, reattached, expired } = fieldsIn(Buffer.from(last));
    this.#counts = {
      calls: Number(calls),
      bytes: Number(bytes),
      reattached: Number(reattached),
      expired: Number(expired),
    };
  }

  #lose(): void {
    const { reattached, expired } = this.#counts;
    this.#before.reattached += reattached;
    this.#before.expired += expired;
    this.#counts = { calls: 0, bytes: 0, reattached: 0, expired: 0 };
    this.#place = undefined;
  }

  open({ socketPath, secret }: LinePlace, { method, path, hostEpoch }: LineRequest): ClientRequest {
    const headers = { [SECRET_HEADER]: secret, [EPOCH_HEADER]: String(hostEpoch) };
    const agent = this.#agent;
    return request({ socketPath, method, path, headers, agent, maxHeaderSize: HEADER_BYTES_MAX });
  }

  /** Every call that the line holds. A line that was not needed so far holds none. */
  async held(): Promise<readonly HeldCall[]> {
    if (this.#place === undefined) return [];
    const said = await this.#ask("GET", "/held", 0).catch(() => undefined);
    return heldIn(said?.["held"]);
  }

  /** The labels of those that are held; undefined for the others. */
  async find(names: readonly string[], hostEpoch: number): Promise<readonly (string | undefined)[]> {
    const said = await this.#ask("POST", "/find", hostEpoch, { names }).catch(() => undefined);
    const held = said?.["held"];
    return names.map((_, at) => {
      const label: unknown = Array.isArray(held) ? held[at] : undefined;
      return typeof label === "string" ? label : undefined;
    });
  }

  /** What a line that has gone cannot hear needs no saying. */
  async say(word: Word, names: readonly string[], hostEpoch: number): Promise<void> {
    await this.#ask("POST", "/words", hostEpoch, { word, names }).catch(() => undefined);
  }

  async #ask(
    method: LineRequest["method"],
    path: string,
    hostEpoch: number,
    said?: unknown,
  ): Promise<Readonly<Record<string, unknown>> | undefined> {
    const place = await this.place();
    if (place === undefined) return undefined;
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const asked = this.open(place, { method, path, hostEpoch });
    asked.on("response", (response) => void text(response).then(resolve, reject));
    asked.on("error", reject);
    asked.end(said === undefined ? undefined : JSON.stringify(said));
    return fieldsIn(Buffer.from(await promise));
  }

  /** Notes that this process reads the call; the function ends that. */
  reads(name: string, hostEpoch: number): () => void {
    this.#open.set(name, hostEpoch);
    return () => this.#open.delete(name);
  }

  /** Cancels every call that this process reads. */
  async cancelOpen(): Promise<void> {
    const all = [...this.#open].map(([name, hostEpoch]) => this.say("cancel", [name], hostEpoch));
    await Promise.all(all);
  }

  /** As Prometheus reads them. */
  metrics(): string {
    const { calls, bytes, reattached, expired } = this.#counts;
    const lines = [
      "# HELP holdfast_line_calls Model calls that the line holds.",
      "# TYPE holdfast_line_calls gauge",
      `holdfast_line_calls ${calls}`,
      "# HELP holdfast_line_bytes Bytes of providers' answers that the line keeps.",
      "# TYPE holdfast_line_bytes gauge",
      `holdfast_line_bytes ${bytes}`,
      "# HELP holdfast_line_reattached_total Model calls that were read again, and so not paid again.",
      "# TYPE holdfast_line_reattached_total counter",
      `holdfast_line_reattached_total ${this.#before.reattached + reattached}`,
      "# HELP holdfast_line_expired_total Model calls that no reader came for, or that were too long to be kept.",
      "# TYPE holdfast_line_expired_total counter",
      `holdfast_line_expired_total ${this.#before.expired + expired}`,
    ];
    return `${lines.join("\n")}\n`;
  }

  /** Lets go of the line, which holds what it has. */
  close(): void {
    this.#isClosed = true;
    this.#stay?.destroy();
    this.#agent.destroy();
  }
}
