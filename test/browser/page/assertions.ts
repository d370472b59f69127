/** `node:assert/strict` for a page, as far as the conformance suites need it. */
function equal(actual: unknown, expected: unknown, message = "not equal"): void {
  if (!Object.is(actual, expected)) throw new Error(`${message}: ${show(actual)} is not ${show(expected)}`);
}

function deepEqual(actual: unknown, expected: unknown, message = "not equal"): void {
  if (!isSame(actual, expected)) throw new Error(`${message}: ${show(actual)} is not ${show(expected)}`);
}

function ok(value: unknown, message = "not so"): void {
  if (!value) throw new Error(message);
}

async function rejects(promise: Promise<unknown>, expected: object): Promise<void> {
  const outcome = await promise.then(
    (value) => new Error(`it resolved with ${show(value)}`),
    (cause: unknown) => cause,
  );
  for (const [name, value] of Object.entries(expected)) {
    equal(Reflect.get(Object(outcome), name), value, `${name} of ${String(outcome)}`);
  }
}

function isSame(a: unknown, b: unknown): boolean {
  if (a instanceof Uint8Array || b instanceof Uint8Array) {
    return a instanceof Uint8Array && b instanceof Uint8Array && a.join() === b.join();
  }
  if (!Array.isArray(a) || !Array.isArray(b)) return Object.is(a, b);
  return a.length === b.length && a.every((one, at) => isSame(one, b[at]));
}

function show(value: unknown): string {
  return value instanceof Uint8Array ? `bytes ${value.join()}` : (JSON.stringify(value) ?? String(value));
}

// oxlint-disable-next-line import/no-default-export -- that is how `node:assert/strict` is imported
export default { equal, deepEqual, ok, rejects };
