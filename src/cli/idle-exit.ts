/**
 * When a server that was started on the side may end by itself: nobody has needed it for a while.
 *
 * Needed means a turn under way, or a sign of life of a program that uses it. A turn that waits for its client
 * counts: the client may come back for it, and the stream's own retention ends the waiting.
 */
interface IdleWatch {
  /** Somebody needs the server, now. */
  touch(): void;
  /** Resolves when nobody has for so long. */
  readonly idle: Promise<void>;
  stop(): void;
}

/** How often it looks, as a part of the time that it waits. */
const LOOKS = 4;

export function watchIdle(idleMs: number, isBusy: () => boolean, now: () => number): IdleWatch {
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
    touch: () => {
      neededMs = now();
    },
    idle: promise,
    stop: () => clearInterval(timer),
  };
}
