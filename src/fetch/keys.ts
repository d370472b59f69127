/**
 * Idempotency keys: a new one for each call, and the one of a call that came to nothing for the same request again.
 *
 * SDKs retry by calling `fetch` again with the same request; under the same key the gateway gives them the same answer. A request that was answered
 * whole is another sample when it is sent again, and two at once are two, so each key is given out once for each time it was left.
 *
 * Invariant: no key is in use by two calls at a time.
 */
const LEFT_MAX = 256;

export class Keys {
  readonly #left = new Map<string, { readonly key: string; readonly untilMs: number }[]>();

  /** `request` is the same for the same request. */
  take(request: string, nowMs: number): string {
    const left = this.#left.get(request) ?? [];
    this.#left.delete(request);
    const usable = left.filter(({ untilMs }) => untilMs > nowMs);
    const [first, ...rest] = usable;
    if (rest.length > 0) this.#left.set(request, rest);
    return first?.key ?? randomKey();
  }

  /** The call came to nothing, and may be tried again until then. */
  leave(request: string, key: string, untilMs: number): void {
    const left = this.#left.get(request) ?? [];
    this.#left.delete(request);
    this.#left.set(request, [...left, { key, untilMs }]);
    const [oldest] = this.#left.keys();
    if (this.#left.size > LEFT_MAX && oldest !== undefined) this.#left.delete(oldest);
  }
}

/** 64 bits of a request, and its length: the gateway refuses a key that comes with another body, so no more is needed. */
export function requestName(parts: readonly string[]): string {
  const text = parts.join("\n");
  let [high, low] = [0xdeadbeef, 0x41c6ce57];
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    high = Math.imul(high ^ unit, 0x9e3779b1);
    low = Math.imul(low ^ unit, 0x5f356495);
  }
  return `${high >>> 0} ${low >>> 0} ${text.length}`;
}

/** Not `randomUUID`: pages that were not served by HTTPS have none. */
function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");
}
