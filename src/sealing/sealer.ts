/**
 * What sealing promises to its users. The crypto is elsewhere.
 *
 * A sealer turns plaintext and a label into one self-describing byte string that opens only under
 * the same key and the same label. A record moved to another stream, direction or number therefore
 * does not open, and a store can neither read nor reorder what it keeps.
 *
 * `node.ts` seals synchronously, `web.ts` by promises and only what a client seals; both build the same bytes, so what one sealed
 * the other opens.
 *
 * Invariant: no (key, nonce) is used twice, whatever crashes and restarts do (E3), and no key and no
 * plaintext shows in an error or in a printed sealer (E4).
 */

/** What is sealed. Each has its own key, so equal counters in two of them never meet. */
export type SealedDirection = "chunks" | "events" | "journal" | "blob" | "letter";

/** Where a record belongs. Not stored with it: a caller that opens a record must know what it asked for. */
export interface SealedLabel {
  readonly stream: string;
  readonly direction: SealedDirection;
  /** The number of the record's first entry. */
  readonly first: number;
  /** How many entries it holds. */
  readonly count: number;
  readonly kind: string;
}

/** What a content MAC tells apart besides the number: a close takes a seqno but is no chunk. */
export type ContentKind = "chunk" | "close";

/** The MAC of one chunk under its stream's key: equal content of equal number, and nothing else, is equal (A2). */
export type ContentMac = (seqno: number, kind: ContentKind, body: Uint8Array) => Uint8Array;

/** Synchronous on Node, a promise in browsers: `await` serves both. */
export interface Sealer {
  seal(label: SealedLabel, plaintext: Uint8Array): Uint8Array | Promise<Uint8Array>;
  /** Fails with `stream_failed` on another key, another label or any changed byte; it does not tell which. */
  open(label: SealedLabel, sealed: Uint8Array): Uint8Array | Promise<Uint8Array>;
}

export interface SyncSealer extends Sealer {
  /**
   * The plaintext is only lent for the call. The record may be a view of a pooled buffer: a caller that keeps
   * one for long keeps a copy.
   */
  seal(label: SealedLabel, plaintext: Uint8Array): Uint8Array;
  open(label: SealedLabel, sealed: Uint8Array): Uint8Array;
}

/**
 * What a client does with keys. `HomeKey` is raw bytes, or whatever else the platform can hold one in without
 * letting it out.
 */
export interface Sealing<HomeKey = Uint8Array> {
  /**
   * Seals and opens what a client or gateway keeps under its home key: journals, blobs, tables. Every call draws its own
   * incarnation: keep the sealer, not the key.
   */
  readonly homeSealer: (homeKey: HomeKey) => Sealer;
  /** What a server stores to recognise a stream key without having it (E1). Compare with `equal`. */
  readonly keyCheck: (streamKey: Uint8Array) => Uint8Array | Promise<Uint8Array>;
  readonly deriveStreamKey: (homeKey: HomeKey, idempotencyKey: string) => Uint8Array | Promise<Uint8Array>;
  /** Of a conversation that a server keeps for this principal: the client hands it over with each attach. */
  readonly deriveConversationKey: (
    homeKey: HomeKey,
    principal: string,
    conversationId: string,
  ) => Uint8Array | Promise<Uint8Array>;
  /** The platform's own hash, which names blobs: it needs no key. */
  readonly sha256: (bytes: Uint8Array) => Uint8Array | Promise<Uint8Array>;
}

/** On Node, without promises, with what only a server does: a page does not load that. */
export interface SyncSealing<HomeKey = Uint8Array> extends Sealing<HomeKey> {
  /** Seals and opens a stream's logs. */
  readonly sealer: (streamKey: Uint8Array) => SyncSealer;
  readonly homeSealer: (homeKey: HomeKey) => SyncSealer;
  readonly keyCheck: (streamKey: Uint8Array) => Uint8Array;
  /** Prepared once per stream, since deriving its key costs more than the MAC. */
  readonly contentMac: (streamKey: Uint8Array) => ContentMac;
  readonly deriveStreamKey: (homeKey: HomeKey, idempotencyKey: string) => Uint8Array;
  readonly deriveConversationKey: (homeKey: HomeKey, principal: string, conversationId: string) => Uint8Array;
  /** A name for what this text means, the same in every process with the stream key, and unknown without it. */
  readonly secretName: (streamKey: Uint8Array, text: string) => Uint8Array;
  readonly sha256: (bytes: Uint8Array) => Uint8Array;
  /** In constant time for equal lengths; false, not an error, for unequal ones. */
  readonly equal: (a: Uint8Array, b: Uint8Array) => boolean;
}

export interface SealingOptions {
  /** Where incarnations come from; the platform's secure source by default. Simulations give a seeded one. */
  readonly randomBytes?: (n: number) => Uint8Array;
}
