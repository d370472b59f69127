/**
 * Maps that remember a bounded number of entries, in the order in which they were last put (F2).
 */

/** Puts an entry behind all others; beyond `countMax` entries the first one leaves. */
export function putLast<Key, Value>(map: Map<Key, Value>, key: Key, value: Value, countMax: number): void {
  map.delete(key);
  map.set(key, value);
  const [first] = map.keys();
  if (map.size > countMax && first !== undefined) map.delete(first);
}
