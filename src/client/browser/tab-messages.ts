/**
 * What tabs of one origin say to each other about connections.
 *
 * Frames travel as the bytes of the wire, so that nothing has to be trusted twice: the codec checks
 * them. Stream keys and API keys travel too. A BroadcastChannel reaches documents of the same origin
 * and browser profile only, which can read the page's storage and use its keys anyway.
 *
 * What does not parse is ignored: it is no message of ours.
 */
import { HoldfastError, isErrorCode } from "../../protocol/errors.ts";
import type { ClientMeta } from "../../transport/transport.ts";

/** Changes with the messages, so that tabs with older code do not meet newer ones. */
export const CHANNEL_VERSION = 1;

/** To whichever tab leads. A connection's number is its tab's. */
export type ToLeader =
  | { readonly kind: "ping"; readonly tab: string }
  | {
      readonly kind: "open";
      readonly tab: string;
      readonly connection: number;
      readonly meta: ClientMeta;
    }
  | {
      readonly kind: "frames";
      readonly tab: string;
      readonly connection: number;
      readonly frames: readonly Uint8Array[];
    }
  | { readonly kind: "end"; readonly tab: string; readonly connection: number };

/** From the leader to one tab. */
export type ToTab =
  /** I lead and I am awake. Also the news of a new leader, to all tabs. */
  | { readonly kind: "here"; readonly leader: string }
  | {
      readonly kind: "frames";
      readonly leader: string;
      readonly connection: number;
      readonly frames: readonly Uint8Array[];
    }
  /** So many bytes of this connection, in all, wait for nothing any more. */
  | { readonly kind: "taken"; readonly leader: string; readonly connection: number; readonly bytes: number }
  | {
      readonly kind: "closed";
      readonly leader: string;
      readonly connection: number;
      readonly reason: ClosedReason | undefined;
    };

/** An error as a plain value: structured cloning would lose its class. */
export interface ClosedReason {
  readonly code: string;
  readonly message: string;
  readonly retryAfterMs: number | undefined;
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

export function parseToLeader(data: unknown): ToLeader | undefined {
  const tab = text(data, "tab");
  if (tab === undefined) return undefined;
  const kind = text(data, "kind");
  if (kind === "ping") return { kind, tab };
  const connection = number(data, "connection");
  if (connection === undefined) return undefined;
  if (kind === "end") return { kind, tab, connection };
  if (kind === "open") {
    const meta = metaOf(member(data, "meta"));
    return meta && { kind, tab, connection, meta };
  }
  const frames = bytesList(data, "frames");
  return kind === "frames" && frames ? { kind, tab, connection, frames } : undefined;
}

export function parseToTab(data: unknown): ToTab | undefined {
  const leader = text(data, "leader");
  if (leader === undefined) return undefined;
  const kind = text(data, "kind");
  if (kind === "here") return { kind, leader };
  const connection = number(data, "connection");
  if (connection === undefined) return undefined;
  if (kind === "closed") return { kind, leader, connection, reason: closedReasonOf(member(data, "reason")) };
  if (kind === "taken") {
    const bytes = number(data, "bytes");
    return bytes === undefined ? undefined : { kind, leader, connection, bytes };
  }
  const frames = bytesList(data, "frames");
  return kind === "frames" && frames ? { kind, leader, connection, frames } : undefined;
}

function metaOf(data: unknown): ClientMeta | undefined {
  const idempotencyKey = text(data, "idempotencyKey");
  const streamKey = member(data, "streamKey");
  if (idempotencyKey === undefined || !(streamKey instanceof Uint8Array)) return undefined;
  return { idempotencyKey, streamKey, credentials: text(data, "credentials") };
}

function closedReasonOf(data: unknown): ClosedReason | undefined {
  const code = text(data, "code");
  if (code === undefined) return undefined;
  return { code, message: text(data, "message") ?? "", retryAfterMs: number(data, "retryAfterMs") };
}

function member(data: unknown, name: string): unknown {
  return typeof data === "object" && data !== null ? Reflect.get(data, name) : undefined;
}

function text(data: unknown, name: string): string | undefined {
  const value = member(data, name);
  return typeof value === "string" ? value : undefined;
}

function number(data: unknown, name: string): number | undefined {
  const value = member(data, name);
  return typeof value === "number" ? value : undefined;
}

function bytesList(data: unknown, name: string): readonly Uint8Array[] | undefined {
  const value = member(data, name);
  if (!Array.isArray(value)) return undefined;
  const list = value.filter((one: unknown) => one instanceof Uint8Array);
  return list.length === value.length ? list : undefined;
}
