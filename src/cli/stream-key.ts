/**
 * The key that opens one stream: the one that was given, or the first that fits of those kept on this machine.
 *
 * A key that was named by a flag is the only one tried, and a wrong one is an error. `HOLDFAST_HOME_KEY` stays set in a shell for whichever
 * program needs it, so it is only tried first. Keys are never printed (E4).
 */
import { homeKeysOf } from "../client-node/home-key-ring.ts";
import { parseHomeKey } from "../client-node/key-places.ts";
import { onlyHomeKey, ringSealing } from "../sealing/index.ts";
import { nodeSealing } from "../sealing/node.ts";
import type { TableStore } from "../store/index.ts";
import { readFileIfThere } from "../node/data-dir.ts";
import { failure, usageError } from "../node/failures.ts";
import { keyIn } from "../node/home-keys.ts";
import { keptHomeKeys } from "./kept-home-keys.ts";
import { type Surroundings, visible } from "./terminal.ts";

export interface KeyFlags {
  readonly homeKeyFile?: string;
  readonly streamKey?: string;
}

/** What was said about keys, read before any database is opened. */
export type SaidKey =
  | { readonly kind: "stream_key"; readonly key: Uint8Array }
  | { readonly kind: "home_key"; readonly homeKey: Uint8Array }
  | { readonly kind: "search"; readonly first: Uint8Array | undefined };

export function saidKey({ streamKey, homeKeyFile }: KeyFlags, machine: Surroundings): SaidKey {
  if (streamKey !== undefined && homeKeyFile !== undefined) {
    throw usageError("give --stream-key or --home-key-file, not both");
  }
  if (streamKey !== undefined) return { kind: "stream_key", key: parseHomeKey(streamKey, "--stream-key") };
  if (homeKeyFile !== undefined) {
    const text = readFileIfThere(homeKeyFile);
    if (text === undefined) throw usageError(`there is no file ${homeKeyFile}`);
    return { kind: "home_key", homeKey: parseHomeKey(text, homeKeyFile) };
  }
  return { kind: "search", first: keyIn(machine, "HOLDFAST_HOME_KEY") };
}

interface SealedStream {
  readonly idempotencyKey: string;
  readonly keyCheck: Uint8Array;
}

type FoundKey =
  | { readonly kind: "found"; readonly streamKey: Uint8Array }
  /** None that is kept here opens it; and what could not be asked. */
  | { readonly kind: "none"; readonly troubles: readonly string[] };

export async function streamKeyOf(
  stream: SealedStream,
  said: SaidKey,
  surroundings: Surroundings,
  /** Of the database that the stream lies in: there the older home keys lie, too. */
  tables: Pick<TableStore, "get">,
): Promise<FoundKey> {
  const { idempotencyKey, keyCheck } = stream;
  const sealing = nodeSealing();
  const opens = (key: Uint8Array): boolean => sealing.equal(sealing.keyCheck(key), keyCheck);
  const derived = async (homeKey: Uint8Array): Promise<Uint8Array> => {
    const keys = (await homeKeysOf(tables, sealing, homeKey)) ?? onlyHomeKey(sealing, homeKey);
    return ringSealing(sealing, keys).deriveStreamKey(homeKey, idempotencyKey);
  };
  const name = `stream "${visible(idempotencyKey)}"`;
  if (said.kind !== "search") {
    const streamKey = said.kind === "stream_key" ? said.key : await derived(said.homeKey);
    if (opens(streamKey)) return { kind: "found", streamKey };
    throw failure(`this key does not open ${name}: it was sealed with another one`);
  }
  const first = said.first && (await derived(said.first));
  if (first !== undefined && opens(first)) return { kind: "found", streamKey: first };
  const troubles: string[] = [];
  for await (const homeKey of keptHomeKeys(surroundings, (trouble) => troubles.push(trouble))) {
    const streamKey = await derived(homeKey);
    if (opens(streamKey)) return { kind: "found", streamKey };
  }
  if (said.first === undefined) return { kind: "none", troubles };
  throw failure(
    `HOLDFAST_HOME_KEY does not open ${name}, and neither does a home key that is kept here: name the right one with --home-key-file`,
  );
}
