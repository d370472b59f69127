/**
 * What tabs of one origin say to each other about connections.
 *
 * Frames travel as plain values, and the tab that gets one checks it as if it came from a server. Stream keys and API keys travel
 * too. A BroadcastChannel reaches documents of the same origin and browser profile only, which can read the page's storage and use
 * its keys anyway; and its name has the version of these messages. So only the kind of a message is looked at: what has none of
 * these kinds is no message of ours, and is ignored.
 */
import { HoldfastError, isErrorCode } from "../../protocol/errors.ts";
import type { ClientFrame, ServerFrame } from "../../protocol/frames.ts";
import type { ClientMeta } from "../../transport/transport.ts";

/** Changes with the messages and with the frames in them (`protocol/frames.ts`), so that tabs with older code do not meet newer ones. */
export const CHANNEL_VERSION = 2;

/** A connection's number is its tab's. */
interface OfTab {
  readonly tab: string;
  readonly connection: number;
}

/** To whichever tab leads. */
export type ToLeader =
  | { readonly kind: "ping"; readonly tab: string }
  | (OfTab & { readonly kind: "open"; readonly meta: ClientMeta })
  | (OfTab & { readonly kind: "frames"; readonly frames: readonly ClientFrame[] })
  | (OfTab & { readonly kind: "end" });

interface OfLeader {
  readonly leader: string;
  readonly connection: number;
}

/** From the leader to one tab. */
export type ToTab =
  /** I lead and I am awake. Also the news of a new leader, to all tabs. */
  | { readonly kind: "here"; readonly leader: string }
  | (OfLeader & { readonly kind: "frames"; readonly frames: readonly ServerFrame[] })
  /** So many bytes of this connection, in all, wait for nothing any more. */
  | (OfLeader & { readonly kind: "taken"; readonly bytes: number })
  | (OfLeader & { readonly kind: "closed"; readonly reason: ClosedReason | undefined });

/** An error as a plain value: structured cloning would lose its class. */
type ClosedReason = Pick<HoldfastError, "code" | "message" | "retryAfterMs">;

/** Cloning a view copies all of the bytes that it is a view of: a message has its own. */
export function ownFrame<Frame extends ClientFrame | ServerFrame>(frame: Frame): Frame {
  return "body" in frame ? { ...frame, body: frame.body.slice() } : frame;
}

export function reasonOf(error: HoldfastError | undefined): ClosedReason | undefined {
  if (error === undefined) return undefined;
  const { code, message, retryAfterMs } = error;
  return { code, message, retryAfterMs };
}

export function errorOf(reason: ClosedReason | undefined): HoldfastError | undefined {
  if (reason === undefined) return undefined;
  const { code, message, retryAfterMs } = reason;
  return new HoldfastError(isErrorCode(code) ? code : "internal", message, { retryAfterMs });
}

export function isToLeader(data: unknown): data is ToLeader {
  return isOneOf(["ping", "open", "frames", "end"] satisfies ToLeader["kind"][], data);
}

export function isToTab(data: unknown): data is ToTab {
  return isOneOf(["here", "frames", "taken", "closed"] satisfies ToTab["kind"][], data);
}

function isOneOf(kinds: readonly unknown[], data: unknown): boolean {
  return typeof data === "object" && data !== null && "kind" in data && kinds.includes(data.kind);
}
