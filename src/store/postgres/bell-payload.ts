/**
 * What a group tells the other nodes: the streams that it changed and the nodes that it has letters for, as one short text.
 *
 * Invariant: a payload is below the 8,000 bytes that PostgreSQL allows; what does not fit becomes "anything may have changed".
 */
import type { StreamName } from "../../core/stream-state.ts";
import type { Hint } from "../letters.ts";
import type { Act, StreamPlace } from "./acts.ts";

/** Anything may have changed. */
export const ANYTHING = "*";
const PAYLOAD_BYTES_MAX = 7_900;

/** A creation is of interest to no other node: none has seen the stream. */
export function newsOf(acts: readonly Act[]): readonly string[] {
  return acts.flatMap((act) => {
    if (act.kind === "statement") return act.tells === undefined ? [] : [letterBox(act.tells)];
    if (act.kind === "write" || act.kind === "create" || act.kind === "renew") return [];
    return [stream(act.place)];
  });
}

export function payloadOf(news: ReadonlySet<string>): string {
  const payload = [...news].join(" ");
  return Buffer.byteLength(payload) <= PAYLOAD_BYTES_MAX ? payload : ANYTHING;
}

export function hintOf(payload: string, placeOf: (name: StreamName) => StreamPlace | undefined): Hint {
  if (payload === ANYTHING) return { has: () => true, isFor: () => true };
  const news = new Set(payload.split(" "));
  return {
    has: (name) => {
      const place = placeOf(name);
      return place === undefined || news.has(stream(place));
    },
    isFor: (hostId) => news.has(letterBox(hostId)),
  };
}

function stream({ id }: StreamPlace): string {
  return id.toString(36);
}

/** Without a space in it, and unlike any stream. */
function letterBox(hostId: string): string {
  return `@${encodeURIComponent(hostId)}`;
}
