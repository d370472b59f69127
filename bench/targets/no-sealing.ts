/**
 * Sealing that seals nothing: what is left when "without store and sealing" is measured.
 *
 * Only here. The product has no switch for it.
 */
import { hash } from "node:crypto";
import { Buffer } from "node:buffer";
import type { SyncSealer, SyncSealing } from "../../src/sealing/index.ts";

const sealer: SyncSealer = {
  // The plaintext is only lent.
  seal: (_label, plaintext) => Buffer.from(plaintext),
  open: (_label, sealed) => sealed,
};

const MAC = new Uint8Array(16);

export const noSealing: SyncSealing = {
  sealer: () => sealer,
  homeSealer: () => sealer,
  keyCheck: (streamKey) => streamKey,
  contentMac: () => () => MAC,
  deriveStreamKey: (homeKey) => homeKey,
  deriveConversationKey: (homeKey) => homeKey,
  secretName: (streamKey) => streamKey,
  sha256: (bytes) => hash("sha256", bytes, "buffer"),
  equal: (a, b) => Buffer.compare(a, b) === 0,
};
