/**
 * What is known by names that clients choose: they may choose any, so only the newest are remembered.
 */
export function remember<Value>(known: Map<string, Value>, name: string, value: Value, max = 1_024): void {
  known.delete(name);
  known.set(name, value);
  if (known.size <= max) return;
  const [oldest = name] = known.keys();
  known.delete(oldest);
}
