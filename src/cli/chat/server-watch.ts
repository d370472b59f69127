/**
 * What a chat does about its server, by what a look at the data directory has found. Decisions and words, no I/O.
 *
 * A chat starts only what a chat has started. The server of a person may have providers and settings that this process does not
 * know: in its place a chat would start another one, that answers with another model. So for that server it waits, and says so.
 */
import { isLoopback } from "../../node/loopback.ts";
import type { ServerSeen } from "../control-client.ts";
import type { ServerAbout } from "../control-messages.ts";

/** The server that a chat uses, as it was last seen. */
export interface UsedServer {
  readonly url: string;
  /** Undefined for an address that was named, as long as the data directory's server was not seen there. */
  readonly pid: number | undefined;
  /** Whether a chat may start it again. */
  readonly mayStart: boolean;
}

type Next =
  /** It answers, so that nothing but the connection was lost; or the data directory says nothing about it. */
  | { readonly kind: "stay" }
  /** Another process answers for it now, here or at another address. */
  | { readonly kind: "follow"; readonly about: ServerAbout }
  | { readonly kind: "start" }
  | { readonly kind: "wait" };

export function nextFor(used: UsedServer, seen: ServerSeen): Next {
  if (seen.kind === "running") {
    const { about } = seen;
    const isOurs = used.pid !== undefined || isSameAddress(used.url, about.url);
    return !isOurs || used.pid === about.pid ? { kind: "stay" } : { kind: "follow", about };
  }
  // It may be the end of a tunnel: the data directory says nothing about it.
  if (used.pid === undefined) return { kind: "stay" };
  return used.mayStart && seen.kind !== "silent" ? { kind: "start" } : { kind: "wait" };
}

/** One machine has several names for itself. */
export function isSameAddress(one: string, other: string): boolean {
  const [a, b] = [URL.parse(one), URL.parse(other)];
  if (a === null || b === null) return false;
  const isSameHost = a.hostname === b.hostname || (isHere(a) && isHere(b));
  return a.protocol === b.protocol && a.port === b.port && isSameHost;
}

function isHere({ hostname }: URL): boolean {
  return isLoopback(hostname) || hostname === "0.0.0.0" || hostname === "[::]";
}

/** What has become of it. */
export function lossText({ url, pid }: UsedServer, seen: ServerSeen): string {
  if (pid === undefined || seen.kind === "running") return `the server at ${url} does not answer`;
  const named = `the server at ${url} (process ${pid})`;
  switch (seen.kind) {
    case "silent":
      return `${named} does not answer`;
    case "died":
      return `${named} has died`;
    case "none":
      return `${named} has stopped`;
  }
}

/** What the chat waits for, and what a person can do. */
export function waitText(used: UsedServer, seen: ServerSeen): string {
  const loss = lossText(used, seen);
  const isGone = seen.kind === "died" || seen.kind === "none";
  return isGone
    ? `${loss}: start it again, and this chat follows it; nothing is lost`
    : `${loss}: this chat waits for it; nothing is lost`;
}

/** Before a server is started in the background. */
export function startText(seen: ServerSeen): string {
  const before = seen.kind === "died" ? seen : undefined;
  const why =
    before === undefined
      ? "no server runs"
      : lossText({ url: before.url, pid: before.pid, mayStart: true }, seen);
  return `${why}; starting one in the background`;
}

/** Once a process answers again. */
export function followText(used: UsedServer, { url, pid }: ServerAbout): string {
  const isMoved = !isSameAddress(used.url, url);
  return isMoved
    ? `the server is at ${url} now (process ${pid}); this chat follows it`
    : `the server is there again (process ${pid})`;
}
