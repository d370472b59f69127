/**
 * What the HTTP edge counts: plain numbers, which `/metrics` reads when it is asked.
 */

/** What a request is about: the label of metrics and logs. Closed, so that no request can make new ones. */
export const REQUEST_KINDS = [
  "stream",
  "attach",
  "append",
  "listen",
  "blob_put",
  "blob_get",
  "blob_forget",
  "gateway",
  "health",
  "ready",
  "metrics",
  "page",
  "sign_in",
  "preflight",
  "other",
] as const;

export type RequestKind = (typeof REQUEST_KINDS)[number];

export interface HttpCounters {
  /** Requests that are under way, by kind. */
  readonly open: Map<RequestKind, number>;
  /** Requests that are over, by kind and status: "attach 200". A status of 0 was never answered. */
  readonly done: Map<string, number>;
  /** Streams' connections: several may share one request, and one may have many. */
  connectionsOpen: number;
  /** Refused for their Host or Origin. */
  foreign: number;
  /** Bodies of requests and responses, without headers and framing. */
  bytesIn: number;
  bytesOut: number;
  blobBytesIn: number;
  blobBytesOut: number;
}

export function newHttpCounters(): HttpCounters {
  return {
    open: new Map(REQUEST_KINDS.map((kind) => [kind, 0])),
    done: new Map(),
    connectionsOpen: 0,
    foreign: 0,
    bytesIn: 0,
    bytesOut: 0,
    blobBytesIn: 0,
    blobBytesOut: 0,
  };
}

export function addTo<Name>(map: Map<Name, number>, name: Name, more: number): void {
  map.set(name, (map.get(name) ?? 0) + more);
}
