/**
 * Where appends find the listener that they join: by principal and name.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import type { Outlet } from "./server-wire.ts";
import type { SplitConnection } from "./split-connection.ts";

/** A listener as those see it who join it, or look after it. */
export interface Listening {
  signOfLife(): void;
  /** Every connection ends with it. */
  end(reason: HoldfastError): void;
  /** The way out for one connection, which then joins. Throws when there is no room for it. */
  outlet(tag: string): Outlet;
  join(connection: SplitConnection): void;
  leave(connection: SplitConnection): void;
}

/** Tells a client behind a proxy that its listener is alive, and a server that its client is not. */
const SIGN_OF_LIFE_MS = 10_000;

export class ListenerTable {
  readonly #listeners = new Map<string, Listening>();
  #timer: NodeJS.Timeout | undefined;

  get size(): number {
    return this.#listeners.size;
  }

  find(principal: string, name: string): Listening | undefined {
    return this.#listeners.get(JSON.stringify([principal, name]));
  }

  add(principal: string, name: string, listener: Listening): void {
    const key = JSON.stringify([principal, name]);
    const before = this.#listeners.get(key);
    this.#listeners.set(key, listener);
    before?.end(new HoldfastError("connection_lost", "another listener has begun under this name"));
    this.#timer ??= setInterval(() => {
      for (const each of this.#listeners.values()) each.signOfLife();
    }, SIGN_OF_LIFE_MS).unref();
  }

  close(): void {
    const reason = new HoldfastError("unavailable", "this server is shutting down; reconnect");
    for (const each of this.#listeners.values()) each.end(reason);
  }

  remove(principal: string, name: string, listener: Listening): void {
    const key = JSON.stringify([principal, name]);
    if (this.#listeners.get(key) === listener) this.#listeners.delete(key);
    if (this.#listeners.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
