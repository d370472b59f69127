/**
 * What a process has of the environment of the test that starts it, although the test gives it one of its own: where compiled code is kept, without
 * which it takes twice as long to start, and the bug that is planted, if one is.
 *
 * Invariant: nothing of it is a setting of Holdfast.
 */
const NAMES = ["NODE_COMPILE_CACHE", "NODE_OPTIONS", "HOLDFAST_PATCHES"] as const;

export function inherited(): Readonly<Record<string, string>> {
  const { env } = process;
  const isPlanted = env["HOLDFAST_PATCHES"] !== undefined;
  return Object.fromEntries(
    NAMES.flatMap((name) => {
      const value = env[name];
      return value === undefined || (name === "NODE_OPTIONS" && !isPlanted) ? [] : [[name, value]];
    }),
  );
}
