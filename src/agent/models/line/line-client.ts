/**
 * How a server reaches its line: finds or starts it when it is needed, says words to it, and knows its counts.
 *
 * Everything works without a line. When there can be none, or it has gone, calls are sent from this process and end with it.
 */
import { connect, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import {
  type Asked,
  type Fields,
  fieldsIn,
  type HeldCall,
  heldIn,
  type LineCounts,
  type Word,
} from "./line-wire.ts";
import { framed } from "./line-frames.ts";

/** Where a line listens, and what it wants to hear. */
export interface LinePlace {
  readonly socketPath: string;
  readonly secret: string;
}

/** Finds the line, and starts it when there is none; undefined when there can be none. */
type EnsureLine = () => Promise<LinePlace | undefined>;

const NO_COUNTS: LineCounts = { calls: 0, bytes: 0, reattached: 0, expired: 0 };

/** A line that could not be started is not tried again before. */
const AGAIN_MS = 10_000;

/** A connection on which this is asked. */
export function asking(
  socketPath: string,
  asked: Asked & { readonly secret?: string },
  body: Uint8Array = new Uint8Array(0),
): Socket {
  const socket = connect(socketPath);
  socket.write(framed(Buffer.from(JSON.stringify(asked))));
  socket.write(framed(body));
  return socket;
}

export class LineClient {
  readonly #ensure: EnsureLine;
  readonly #sockets = new Set<Socket>();
  #place: Promise<LinePlace | undefined> | undefined;
  #counts = NO_COUNTS;
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

  /** The line stays while this connection does, and counts itself on it. */
  #stayWith(place: LinePlace): void {
    const stay = this.open(place, { ask: "stay" });
    stay.unref();
    stay.setEncoding("utf8").on("data", (said: string) => this.#count(said));
    stay.on("error", () => undefined);
    stay.on("close", () => this.#lose());
  }

  #count(said: string): void {
    const last = said.trim().split("\n").at(-1) ?? "";
    const { calls, bytes, reattached, expired } = fieldsIn(last);
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
    this.#counts = NO_COUNTS;
    this.#place = undefined;
  }

  /** A connection for this question, and the body that belongs to it. */
  open({ socketPath, secret }: LinePlace, asked: Asked, body?: Uint8Array): Socket {
    const socket = asking(socketPath, { secret, ...asked }, body);
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
    return socket;
  }

  /** Every call that the line holds. A line that was not needed so far holds none. */
  async held(): Promise<readonly HeldCall[]> {
    if (this.#place === undefined) return [];
    const said = await this.#ask({ ask: "held" }).catch(() => undefined);
    return heldIn(said?.["held"]);
  }

  /** The labels of those that are held; undefined for the others. */
  async find(names: readonly string[], hostEpoch: number): Promise<readonly (string | undefined)[]> {
    const said = await this.#ask({ ask: "find", epoch: hostEpoch, names }).catch(() => undefined);
    const held = said?.["held"];
    return names.map((_, at) => {
      const label: unknown = Array.isArray(held) ? held[at] : undefined;
      return typeof label === "string" ? label : undefined;
    });
  }

  /** What a line that has gone cannot hear needs no saying. */
  async say(word: Word, names: readonly string[], hostEpoch: number): Promise<void> {
    await this.#ask({ ask: "words", epoch: hostEpoch, names, word }).catch(() => undefined);
  }

  async #ask(asked: Asked): Promise<Fields | undefined> {
    const place = await this.place();
    return place === undefined ? undefined : fieldsIn(await text(this.open(place, asked)));
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
    for (const socket of this.#sockets) socket.destroy();
  }
}
