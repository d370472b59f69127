/**
 * When a server that was started on the side may end by itself: no program has needed it for a while.
 *
 * Needed means a turn under way, or a sign of life of a program that uses it. A turn that waits for its client
 * counts: the client may return for it, and the stream's own retention ends the waiting.
 */
/** How often it looks, as a part of the time that it waits. */
const LOOKS = 4;

export function watchIdle(idleMs: number, isBusy: () => boolean, now: () => number) {
  const { promise, resolve } = Promise.withResolvers<void>();
  let neededMs = now();
  const timer = setInterval(
    () => {
      if (isBusy()) neededMs = now();
      else if (now() - neededMs >= idleMs) resolve();
    },
    Math.max(1, idleMs / LOOKS),
  );
  return {
    /** A program needs the server, now. */
    touch: () => {
      neededMs = now();
    },
    /** Resolves when no program has needed it for so long. */
    idle: promise,
    stop: () => clearInterval(timer),
  };
}
