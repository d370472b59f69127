/**
 * What tabs of one origin say to each other about connections.
 *
 * Stream keys and API keys travel too: a BroadcastChannel reaches documents of the same origin and browser profile only, which can
 * read the page's storage and use its keys anyway.
 *
 * Invariant: a message of another shape, from another version of the page or from other code, changes nothing. Every field is looked
 * at; then each frame is checked as if it came from a server, and one that is none closes its connection alone.
 */
import { HoldfastError, isErrorCode } from "../../protocol/errors.ts";
import {
  anyOf,
  bytes,
  count,
  type Fields,
  holding,
  list,
  maybe,
  type Rule,
  text,
} from "../../protocol/frame-check.ts";
import type { ClientFrame, ServerFrame } from "../../protocol/frames.ts";
import type { ClientMeta, ConversationAccess } from "../../transport/transport.ts";

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

const ofTab = { tab: text, connection: count };

const toLeader = anyOf<ToLeader>({
  ping: { tab: text },
  open: {
    ...ofTab,
    meta: holding({
      idempotencyKey: text,
      streamKey: bytes(),
      conversation: maybe(holding({ key: bytes(), keepMs: count } satisfies Fields<ConversationAccess>)),
      credentials: maybe(text),
    } satisfies Fields<ClientMeta>),
  },
  frames: { ...ofTab, frames: list(holding({})) },
  end: ofTab,
});

const ofLeader = { leader: text, connection: count };

const toTab = anyOf<ToTab>({
  here: { leader: text },
  frames: { ...ofLeader, frames: list(holding({})) },
  taken: { ...ofLeader, bytes: count },
  closed: {
    ...ofLeader,
    reason: maybe(
      holding({ code: text, message: text, retryAfterMs: maybe(count) } satisfies Fields<ClosedReason>),
    ),
  },
});

export function isToLeader(data: unknown): data is ToLeader {
  return fits(toLeader, data);
}

export function isToTab(data: unknown): data is ToTab {
  return fits(toTab, data);
}

function fits(rule: Rule, data: unknown): boolean {
  try {
    rule(data, "a message");
    return true;
  } catch {
    return false;
  }
}
