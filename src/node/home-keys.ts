/**
 * The home keys of a gateway: found at a start, and rotated.
 *
 * They lie apart from the data, as every client's do: the newest in `HOLDFAST_HOME_KEY` or in a file of the user's configuration, the older ones sealed under it in
 * the database (`src/client-node/home-key-ring.ts`).
 *
 * Invariant: a new key is on the disk before the database asks for it. It waits in a file beside the old one, whose name ends with `.next`, and takes that one's place
 * once the database has it. A start finds whichever of the two the database asks for, so a crash costs nothing.
 */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { keptScopeId, resolveHomeKey } from "../client-node/home-key.ts";
import { homeKeysOf, rotateHomeKey } from "../client-node/home-key-ring.ts";
import { filePlace, parseHomeKey, writeNextKey } from "../client-node/key-places.ts";
import { moveOver } from "../client-node/private-files.ts";
import { keyDirectory } from "../client-node/scope.ts";
import { type HomeKeys, KEY_BYTES, namesSecret, ringSealing } from "../sealing/index.ts";
import { nodeSealing } from "../sealing/node.ts";
import type { TableStore } from "../store/index.ts";
import { failure, usageError } from "./failures.ts";
import type { Machine } from "./machine.ts";

interface HomeKeyParts {
  readonly tables: TableStore;
  /** Other nodes have the same tables, and the same home key. */
  readonly isShared: boolean;
  readonly dataDir: string;
  readonly machine: Machine;
  readonly onNotice: (message: string) => void;
}

export async function gatewayHomeKeys(parts: HomeKeyParts): Promise<HomeKeys> {
  const { tables, dataDir, machine, isShared, onNotice } = parts;
  const given = keyIn(machine, "HOLDFAST_HOME_KEY");
  const sealing = nodeSealing();
  const homeKey = await resolveHomeKey({
    tables,
    sealing,
    directory: dataDir,
    isShared,
    given,
    places: (scopeId) =>
      Object.values(fileNames(scopeId)).map((name) =>
        filePlace(directoryOf(machine), name, dataDir, onNotice),
      ),
    keyLock: join(dataDir, "home-key.lock"),
  });
  if (given === undefined) await settleFile(parts, homeKey);
  const keys = await homeKeysOf(tables, sealing, homeKey);
  if (keys === undefined)
    throw failure("the home key was rotated while this process started: start it again");
  return keys;
}

interface Rotated {
  readonly keys: HomeKeys;
  /** Where the new key lies; undefined when it was given, and is for the operator to keep. */
  readonly file: string | undefined;
}

/** No server may run on the tables: it would not know the new key. The new key is drawn, or it is `HOLDFAST_NEW_HOME_KEY`. */
export async function rotateGatewayKey(parts: HomeKeyParts, keepMax: number): Promise<Rotated> {
  const { tables, machine } = parts;
  const sealing = nodeSealing();
  const said = keyIn(machine, "HOLDFAST_NEW_HOME_KEY");
  const given = keyIn(machine, "HOLDFAST_HOME_KEY");
  const isGiven = given !== undefined;
  if (isGiven && said === undefined)
    throw usageError(
      "HOLDFAST_HOME_KEY is set, so the new home key comes from HOLDFAST_NEW_HOME_KEY. " +
        `Make one with: node -p "crypto.randomBytes(32).toString('base64url')"`,
    );
  const done = said && (await homeKeysOf(tables, sealing, said));
  // A call that was interrupted behind its write is repeated.
  if (done !== undefined && isGiven && !sealing.equal(given, done.homeKey))
    return { keys: done, file: undefined };
  if (done !== undefined) throw usageError("HOLDFAST_NEW_HOME_KEY is the home key already");
  const before = await gatewayHomeKeys(parts);
  const next = said ?? new Uint8Array(randomBytes(KEY_BYTES));
  const scopeId = (await keptScopeId(tables)) ?? "";
  if (!isGiven) writeNextKey(directoryOf(machine), fileNames(scopeId).next, next);
  const keys = await rotateHomeKey(tables, sealing, before, next, keepMax);
  if (isGiven) return { keys, file: undefined };
  await settleFile(parts, next);
  return { keys, file: join(directoryOf(machine), fileNames(scopeId).newest) };
}

/** What the gateway's rows are sealed and named by, and what seals thoughts for its clients. */
export function gatewaySecrets(keys: HomeKeys) {
  const { homeKey, keyNumber, older, names: secret } = keys;
  const sealing = nodeSealing();
  const thoughts = new Map(
    [...older, [keyNumber, homeKey] as const].map(([number, key]) => [number, namesSecret(sealing, key)]),
  );
  return { sealer: ringSealing(sealing, keys).homeSealer(homeKey), secret, keyNumber, thoughts };
}

/** The file of the home key that the database asks for has its proper name. */
async function settleFile(
  { tables, dataDir, machine, onNotice }: HomeKeyParts,
  homeKey: Uint8Array,
): Promise<void> {
  const { newest, next } = fileNames((await keptScopeId(tables)) ?? "");
  const directory = directoryOf(machine);
  const waiting = await filePlace(directory, next, dataDir, onNotice).read();
  if (waiting.kind === "found" && nodeSealing().equal(waiting.homeKey, homeKey))
    moveOver(join(directory, next), join(directory, newest));
}

function fileNames(scopeId: string) {
  return { newest: scopeId, next: `${scopeId}.next` };
}

function directoryOf({ env, home, platform: name }: Machine): string {
  return keyDirectory({ name, home, environment: env });
}

/** Undefined when the variable is not set, or empty. */
export function keyIn({ env }: Pick<Machine, "env">, variable: string): Uint8Array | undefined {
  const text = env[variable] ?? "";
  return text === "" ? undefined : parseHomeKey(text, variable);
}
