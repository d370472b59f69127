/**
 * The environment by which a process started by a test has the bug that is planted in the test's own process.
 *
 * Empty in an ordinary run. A test that starts processes with an environment of their own adds it.
 */
export function plantedBug(): Readonly<Record<string, string>> {
  const { NODE_OPTIONS, HOLDFAST_PATCHES } = process.env;
  if (NODE_OPTIONS === undefined || HOLDFAST_PATCHES === undefined) return {};
  return { NODE_OPTIONS, HOLDFAST_PATCHES };
}
