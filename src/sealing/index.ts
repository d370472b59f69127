/**
 * Sealing for code that must also run in a browser. `node.ts` is the other entry point, for Node only.
 */
export { type HomeKeys, namesSecret, onlyHomeKey, ringSealing } from "./home-keys.ts";
export { CONTENT_MAC_BYTES, equalConstantTime, KEY_BYTES, KEY_CHECK_BYTES } from "./keys.ts";
export { SEALED_OVERHEAD_BYTES } from "./record.ts";
export type {
  ContentKind,
  ContentMac,
  SealedDirection,
  SealedLabel,
  Sealer,
  Sealing,
  SealingOptions,
  SyncSealer,
  SyncSealing,
} from "./sealer.ts";
export { importHomeKey, webSealing, type WebKey } from "./web.ts";
