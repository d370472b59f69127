/**
 * What `holdfast keys` can do: carried out on the table itself, or by the server that owns it.
 */
import type { ApiKeyLimits } from "../server/api-key-limits.ts";
import type { ApiKeyInfo, ApiKeyRecord } from "../server/api-key-record.ts";
import type { ApiKeys } from "../server/api-keys.ts";
import type { Spending } from "../server/index.ts";

export interface CreatedKey extends ApiKeyInfo {
  readonly apiKey: string;
}

export interface KeyAdmin {
  create(principal: string, label: string, limits: ApiKeyLimits): Promise<CreatedKey>;
  list(): Promise<readonly ApiKeyInfo[]>;
  /** False when there is no such API key. */
  revoke(id: string): Promise<boolean>;
}

export function keyAdmin(keys: ApiKeys, spending: Pick<Spending, "today">): KeyAdmin {
  return {
    create: async (principal, label, limits) => {
      const { apiKey, record } = await keys.create(principal, label, limits);
      return { apiKey, ...infoOf(record) };
    },
    list: async () =>
      Promise.all(
        (await keys.list()).map(async (record) => {
          const tokensToday = await spending.today(record.id);
          return tokensToday === 0 ? infoOf(record) : Object.assign(infoOf(record), { tokensToday });
        }),
      ),
    revoke: (id) => keys.revoke(id),
  };
}

/** Not even the hash leaves the server. */
function infoOf(record: ApiKeyRecord): ApiKeyInfo {
  const { hash: _, ...info } = record;
  return info;
}
