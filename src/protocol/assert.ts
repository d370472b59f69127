/**
 * Our own bugs, kept apart from a peer's mistakes and from failures of the world.
 *
 * A failed assertion ends the work of the stream it happened in with `stream_failed`; it never
 * blames the peer and never becomes an error that a client retries.
 */
export class AssertionFailed extends Error {
  override readonly name = "AssertionFailed";
}

export function assert(condition: boolean, rule: string): asserts condition {
  if (!condition) throw new AssertionFailed(rule);
}

/** For the `default` of a switch that must be exhaustive. */
export function unreachable(value: never): never {
  // Only what kind it is: a frame has a body, and a body must not be shown (E4).
  const shown: unknown = value;
  const isTagged = typeof shown === "object" && shown !== null && "kind" in shown;
  throw new AssertionFailed(`unreachable: ${String(isTagged ? shown.kind : typeof shown)}`);
}
