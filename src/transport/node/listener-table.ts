/**
 * Where appends find the listener that they join: by principal and name.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import type { Outlet } from "./server-wire.ts";
import type { SplitConnection } from "./split-connection.ts";

/** What appends and pings need of a listener. */
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

export type ListenerTable = ReturnType<typeof listenerTable>;

export function listenerTable() {
  const listeners = new Map<string, Listening>();
  let timer: NodeJS.Timeout | undefined;

  return {
    get size(): number {
      return listeners.size;
    },
    find(principal: string, name: string): Listening | undefined {
      return listeners.get(JSON.stringify([principal, name]));
    },
    add(principal: string, name: string, listener: Listening): void {
      const key = JSON.stringify([principal, name]);
      const before = listeners.get(key);
      listeners.set(key, listener);
      before?.end(new HoldfastError("connection_lost", "another listener has begun under this name"));
      timer ??= setInterval(() => {
        for (const each of listeners.values()) each.signOfLife();
      }, SIGN_OF_LIFE_MS).unref();
    },
    close(): void {
      const reason = new HoldfastError("unavailable", "this server is shutting down; reconnect");
      for (const each of listeners.values()) each.end(reason);
    },
    remove(principal: string, name: string, listener: Listening): void {
      const key = JSON.stringify([principal, name]);
      if (listeners.get(key) === listener) listeners.delete(key);
      if (listeners.size > 0) return;
      clearInterval(timer);
      timer = undefined;
    },
  };
}
