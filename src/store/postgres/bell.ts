/**
 * By which nodes wake each other: `NOTIFY` behind each group, on a connection of its own.
 *
 * Within a group's transaction it would make all commits of the server wait for each other. It may be lost with its connection, which costs
 * listeners the time to their next poll; a connection that is made anew says that anything may have changed.
 */
import type { Address } from "./address.ts";
import { ANYTHING, payloadOf } from "./bell-payload.ts";
import { connect, type Connection } from "./driver.ts";

const CHANNEL = "holdfast";
/** Between two tries to connect: polling continues meanwhile. */
const PAUSE_MS = 1_000;

export class Bell {
  readonly #address: Address;
  readonly #applicationName: string;
  readonly #listeners = new Set<(payload: string) => void>();
  readonly #closing = new AbortController();
  #news = new Set<string>();
  #connection: Connection | undefined;
  #isRinging = false;
  readonly #life: Promise<void>;

  constructor(address: Address, applicationName: string) {
    this.#address = address;
    this.#applicationName = applicationName;
    this.#life = this.#live();
  }

  listen(hear: (payload: string) => void): () => void {
    this.#listeners.add(hear);
    return () => this.#listeners.delete(hear);
  }

  /** Called when a group is durable. While one notice is on its way the news of later groups gather for the next. */
  ring(news: readonly string[]): void {
    if (this.#connection === undefined || news.length === 0) return;
    for (const one of news) this.#news.add(one);
    if (!this.#isRinging) void this.#ringOut(this.#connection);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#connection?.cut();
    await this.#life;
  }

  async #ringOut(connection: Connection): Promise<void> {
    this.#isRinging = true;
    try {
      while (this.#news.size > 0) {
        const payload = payloadOf(this.#news);
        this.#news = new Set();
        await connection.ask({
          name: "holdfast-ring",
          text: `SELECT pg_notify('${CHANNEL}', $1)`,
          values: [payload],
        });
      }
    } catch {
      // The connection is gone: listeners poll, and are woken when it is back.
      this.#news = new Set();
    } finally {
      this.#isRinging = false;
    }
  }

  async #live(): Promise<void> {
    while (!this.#closing.signal.aborted) {
      try {
        const connection = await connect(this.#address, this.#applicationName);
        if (this.#closing.signal.aborted) return connection.cut();
        // From here on a close cuts it, also while it begins to listen.
        this.#connection = connection;
        connection.onNotification = (payload) => this.#heard(payload);
        await connection.ask({ text: `LISTEN ${CHANNEL}` });
        this.#heard(ANYTHING);
        await connection.gone;
      } catch {
        // The parts that cannot do without the database notice and report that it is away.
      }
      this.#connection = undefined;
      await this.#pause();
    }
  }

  #heard(payload: string): void {
    for (const hear of this.#listeners) hear(payload);
  }

  async #pause(): Promise<void> {
    const { signal } = this.#closing;
    if (signal.aborted) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, PAUSE_MS);
    signal.addEventListener("abort", () => resolve(), { once: true });
    await promise;
    clearTimeout(timer);
  }
}
