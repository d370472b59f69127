/**
 * The home keys that this user's gateway and clients keep on this machine: among them `inspect` looks for the one that opens a stream.
 *
 * A stream has a check value of its key, so a key can be tried without reading anything. Key files lie together, whichever program made them; the
 * keyring is asked last, because it may be slow, and only for the client of the working directory and the application's own: it knows keys by their
 * scope's id and lists none. Nothing is written here.
 */
import { messageOf } from "../protocol/errors.ts";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { isScopeId, keptScopeId } from "../client-node/home-key.ts";
import { keyringPlace, parseHomeKey } from "../client-node/key-places.ts";
import { systemKeyring } from "../client-node/keyring.ts";
import { keyDirectory, type ScopePaths, scopePaths } from "../client-node/scope.ts";
import { openSqliteReadOnly } from "../store/index.ts";
import { systemCode } from "../node/failures.ts";
import type { Surroundings } from "./terminal.ts";

/** Calls `onTrouble` for a place that could not be asked, and continues the search. */
export async function* keptHomeKeys(
  surroundings: Surroundings,
  onTrouble: (trouble: string) => void,
): AsyncGenerator<Uint8Array> {
  const places = placesOf(surroundings);
  if (places instanceof Error) {
    onTrouble(places.message);
    return;
  }
  yield* keysInFiles(places.directory, onTrouble);
  for (const { database } of places.scopes) {
    const scopeId = await scopeIdOf(database, surroundings, onTrouble);
    if (scopeId === undefined) continue;
    const place = keyringPlace(systemKeyring(), scopeId);
    const answer = await place.read();
    if (answer.kind === "found") yield answer.homeKey;
    if (answer.kind === "unavailable") onTrouble(`${place.name}: ${answer.reason}`);
  }
}

interface Places {
  /** Of key files. */
  readonly directory: string;
  readonly scopes: readonly ScopePaths[];
}

/** An error when this user has no home directory, as in a container. */
function placesOf(surroundings: Surroundings): Places | Error {
  try {
    const { env, home, platform: name, cwd } = surroundings;
    const platform = { name, home, environment: env };
    const scopes = [
      scopePaths({ scope: "workspace", directory: cwd }, platform),
      scopePaths({ scope: "application", directory: undefined }, platform),
    ];
    return { directory: keyDirectory(platform), scopes };
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

function* keysInFiles(directory: string, onTrouble: (trouble: string) => void): Generator<Uint8Array> {
  const names = existsSync(directory) ? readdirSync(directory).filter(isScopeId) : [];
  for (const name of names) {
    const path = join(directory, name);
    const key = keyIn(path);
    if (typeof key === "string") onTrouble(key);
    else yield key;
  }
}

/** The key, or why there is none; a damaged file of another scope must not hide the right one. */
function keyIn(path: string): Uint8Array | string {
  try {
    return parseHomeKey(readFileSync(path, "utf8"), path);
  } catch (error) {
    return `${path}: ${systemCode(error) ?? "it holds no home key"}`;
  }
}

async function scopeIdOf(
  database: string,
  { now }: Surroundings,
  onTrouble: (trouble: string) => void,
): Promise<string | undefined> {
  if (!existsSync(database)) return undefined;
  try {
    const opened = await openSqliteReadOnly(database, { now });
    try {
      return await keptScopeId(opened.tables);
    } finally {
      await opened.close();
    }
  } catch (error) {
    onTrouble(`${database}: ${messageOf(error)}`);
    return undefined;
  }
}
