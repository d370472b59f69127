/**
 * The browser that this code runs in. Only this file names its globals; they are looked up at the call,
 * so that importing the client where there is none (a server that renders pages) is harmless.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import type { Channel, DatabaseFactory, KeyRanges, Locks, Page, PageEvents, Platform } from "./platform.ts";

// Declared in this module alone: see platform.ts.
declare const indexedDB: DatabaseFactory | undefined;
declare const IDBKeyRange: KeyRanges;
declare const navigator: { readonly locks?: Locks } | undefined;
declare const BroadcastChannel: new (name: string) => {
  postMessage(message: unknown): void;
  addEventListener(type: "message", listener: (event: { readonly data: unknown }) => void): void;
  close(): void;
};
declare const window: PageEvents | undefined;
declare const location: { readonly origin: string } | undefined;
declare const document: Page["document"] | undefined;

export function thisBrowser(): Platform {
  const locks = typeof navigator === "undefined" ? undefined : navigator.locks;
  if (typeof indexedDB === "undefined" || locks === undefined) {
    throw new HoldfastError(
      "unavailable",
      "this client needs a browser with IndexedDB and Web Locks, and a page over https or from localhost",
    );
  }
  return { indexedDB, keyRanges: IDBKeyRange, locks, openChannel };
}

function openChannel(name: string, listener?: (data: unknown) => void): Channel {
  const channel = new BroadcastChannel(name);
  if (listener !== undefined) channel.addEventListener("message", ({ data }) => listener(data));
  return {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- it is no window: its origin is the page's
    post: (message) => channel.postMessage(message),
    close: () => channel.close(),
  };
}

/** Undefined in a worker, which is never hidden and hears nothing. */
export function thisPage(): Page | undefined {
  if (typeof window === "undefined" || typeof document === "undefined") return undefined;
  return { window, document };
}

/** Where the page or worker comes from. */
export function thisOrigin(): string | undefined {
  return typeof location === "undefined" ? undefined : location.origin;
}
