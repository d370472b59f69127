/**
 * The home keys of a scope whose home key was rotated: the newest for what begins, the older ones for what there is.
 *
 * A client derives keys through `ringSealing` and knows of one home key, the newest. The name of a stream or a conversation says under which home key it
 * began (`src/protocol/key-number.ts`), so nothing is tried out and nothing needs to be kept. Rows have no such name: they are opened by the first key that fits.
 *
 * Invariant: only the newest key seals rows. What began under a dropped key opens under none.
 */
import { keyNumberOf } from "../protocol/key-number.ts";
import type { SyncSealer, SyncSealing } from "./sealer.ts";

export interface HomeKeys {
  /** The newest. */
  readonly homeKey: Uint8Array;
  /** How often it was rotated. */
  readonly keyNumber: number;
  /** By number; those that were dropped are not here. */
  readonly older: ReadonlyMap<number, Uint8Array>;
  /** What names of rows follow from. It stays over rotations: it seals nothing, and a row must be found again. */
  readonly names: Uint8Array;
}

/** The names of a scope's rows and tool calls follow from a secret of their own, not from one that seals anything. */
const NAMES = "the gateway's names";

export function namesSecret(sealing: SyncSealing, homeKey: Uint8Array): Uint8Array {
  return sealing.deriveStreamKey(homeKey, NAMES);
}

/** The home keys of a scope that was never rotated. */
export function onlyHomeKey(sealing: SyncSealing, homeKey: Uint8Array): HomeKeys {
  return { homeKey, keyNumber: 0, older: new Map(), names: namesSecret(sealing, homeKey) };
}

/** The same sealing, for a client that has the newest home key. Of a dropped home key nothing opens: the server answers as for a wrong stream key. */
export function ringSealing(sealing: SyncSealing, { older }: Pick<HomeKeys, "older">): SyncSealing {
  const keyOf = (homeKey: Uint8Array, name: string): Uint8Array => older.get(keyNumberOf(name)) ?? homeKey;
  return {
    ...sealing,
    homeSealer: (homeKey) => {
      const newest = sealing.homeSealer(homeKey);
      const others = [...older.values()].map((key) => sealing.homeSealer(key));
      if (others.length === 0) return newest;
      return { seal: (...asked) => newest.seal(...asked), open: opener([newest, ...others]) };
    },
    deriveStreamKey: (homeKey, name) => sealing.deriveStreamKey(keyOf(homeKey, name), name),
    deriveConversationKey: (homeKey, principal, id) =>
      sealing.deriveConversationKey(keyOf(homeKey, id), principal, id),
  };
}

function opener(sealers: readonly SyncSealer[]): SyncSealer["open"] {
  return (label, sealed) => {
    let refusal: unknown;
    for (const sealer of sealers)
      try {
        return sealer.open(label, sealed);
      } catch (cause) {
        refusal ??= cause;
      }
    throw refusal;
  };
}
