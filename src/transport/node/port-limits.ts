/**
 * What a port takes from its clients before it hangs up (E8, F2).
 */

export interface PortLimits {
  /** Open sockets; one above is closed at once. */
  readonly connectionsMax: number;
  /** HTTP/2 streams per connection. A client puts all its streams on one, a gateway those of all its users. */
  readonly streamsPerConnectionMax: number;
  /** All headers of a request. */
  readonly headerBytesMax: number;
  /** From the connection to its first bytes, and to the end of the TLS handshake. */
  readonly firstBytesTimeoutMs: number;
  /** HTTP/1.1: from a request's first byte to the end of its headers. */
  readonly headersTimeoutMs: number;
  /** HTTP/1.1: to the end of its body, which there is never longer than one append or blob. */
  readonly requestTimeoutMs: number;
  /** From the end of a response until its last byte has been taken: nothing else watches it any more. */
  readonly lastBytesTimeoutMs: number;
  /** HTTP/1.1: a connection that we have ended, until its client has done the same. */
  readonly hangUpTimeoutMs: number;
  /** A connection without a request. */
  readonly idleTimeoutMs: number;
  /** A peer that has not answered the ping before is cut: so within twice this time. */
  readonly pingIntervalMs: number;
}

export const PORT_DEFAULTS: PortLimits = Object.freeze({
  connectionsMax: 20_000,
  streamsPerConnectionMax: 2_000,
  headerBytesMax: 16 * 1024,
  firstBytesTimeoutMs: 10_000,
  headersTimeoutMs: 15_000,
  // 64 MiB at 2 Mbit/s.
  requestTimeoutMs: 300_000,
  // As long as a reader of a stream may take to take anything.
  lastBytesTimeoutMs: 30_000,
  // A client that has read the end hangs up within a round trip or two.
  hangUpTimeoutMs: 10_000,
  // Longer than the 60 s after which most proxies in front give up an idle connection to us.
  idleTimeoutMs: 75_000,
  pingIntervalMs: 10_000,
});
