/**
 * What `holdfast keys` can do, whoever does it: the table itself, or the server that owns it.
 */
import type { ApiKeyLimits } from "../server/api-key-limits.ts";
import type { ApiKeys } from "../server/api-keys.ts";

/** One API key as lists show it. Times in milliseconds since 1970. */
export interface KeyInfo {
  readonly id: string;
  readonly principal: string;
  readonly label: string;
  readonly createdMs: number;
  readonly lastUsedMs: number | undefined;
  readonly revokedMs: number | undefined;
  readonly limits: ApiKeyLimits | undefined;
}

export interface CreatedKey extends KeyInfo {
  readonly apiKey: string;
}

export interface KeyAdmin {
  create(principal: string, label: string, limits: ApiKeyLimits): Promise<CreatedKey>;
  list(): Promise<readonly KeyInfo[]>;
  /** False when there is no such API key. */
  revoke(id: string): Promise<boolean>;
}

export function keyAdmin(keys: ApiKeys): KeyAdmin {
  return {
    create: async (principal, label, limits) => {
      const { apiKey, record } = await keys.create(principal, label, limits);
      return { apiKey, ...infoOf(record) };
    },
    list: async () => (await keys.list()).map(infoOf),
    revoke: (id) => keys.revoke(id),
  };
}

/** Not even the hash leaves the server. */
function infoOf({ id, principal, label, createdMs, lastUsedMs, revokedMs, limits }: KeyInfo): KeyInfo {
  return { id, principal, label, createdMs, lastUsedMs, revokedMs, limits };
}
