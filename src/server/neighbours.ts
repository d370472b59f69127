/**
 * What a node hears of the others through the store that they share: how the streams are that it follows, and the letters for those that it runs.
 *
 * It looks once a second, by one question for all streams, whatever happens. A hint makes it look at once; a hint that is lost costs a second.
 *
 * Invariant: at most one look and one reading of letters is under way, and what is asked for meanwhile is looked at behind it.
 */
import type { StreamName } from "../core/stream-state.ts";
import type { Hint, Letter, Letters } from "../store/letters.ts";
import type { FollowedStream } from "./followed.ts";
import type { HostContext } from "./host-context.ts";

interface NeighboursParts {
  readonly context: HostContext;
  readonly letters: Letters;
  readonly hostId: string;
  readonly followed: () => Iterable<FollowedStream>;
  /** False while it is not known yet whether the letter concerns this node. */
  readonly take: (letter: Letter) => boolean;
}

export interface Neighbours {
  stop(): void;
}

const POLL_MS = 1_000;
/** More are read when these are dealt with. */
const LETTERS_MAX = 256;

export function createNeighbours({ context, letters, hostId, followed, take }: NeighboursParts): Neighbours {
  /** Letters that were taken and may still be found. */
  let inHand = new Set<number>();
  let isStopped = false;

  async function look(isMeant: (name: StreamName) => boolean): Promise<void> {
    const streams = [...followed()].filter(({ name }) => isMeant(name));
    if (streams.length === 0) return;
    const found = await context.store.look(streams.map(({ name }) => name));
    const news = streams.flatMap((stream, at) => {
      const one = found[at];
      return one === undefined ? [] : [stream.see(one)];
    });
    await Promise.all(news);
  }

  async function readLetters(): Promise<void> {
    const found = await letters.read(hostId, LETTERS_MAX);
    const numbers = new Set(found.map(({ number }) => number));
    inHand = new Set([...inHand].filter((number) => numbers.has(number)));
    for (const letter of found) {
      if (isStopped || inHand.has(letter.number)) continue;
      if (take(letter)) inHand.add(letter.number);
    }
  }

  const looking = oneAtATime(async (hints: readonly (Hint | undefined)[]) =>
    look((name) => hints.some((hint) => hint === undefined || hint.has(name))),
  );
  const reading = oneAtATime(async () => readLetters());

  function poll(): void {
    looking(undefined);
    reading(undefined);
    cancel = context.environment.after(POLL_MS, poll);
  }

  let cancel = context.environment.after(POLL_MS, poll);
  const deaf = letters.listen((hint) => {
    if (isStopped) return;
    looking(hint);
    if (hint.isFor(hostId)) reading(hint);
  });

  /** What fails is tried again with the next poll; a store that has failed says so elsewhere. */
  function oneAtATime(
    run: (hints: readonly (Hint | undefined)[]) => Promise<void>,
  ): (hint: Hint | undefined) => void {
    const waiting: (Hint | undefined)[] = [];
    let isRunning = false;
    const work = async (): Promise<void> => {
      isRunning = true;
      while (waiting.length > 0) {
        const hints = waiting.splice(0);
        await run(hints).catch(() => undefined);
      }
      isRunning = false;
    };
    return (hint) => {
      if (isStopped) return;
      waiting.push(hint);
      if (!isRunning) void work();
    };
  }

  return {
    stop() {
      isStopped = true;
      cancel();
      deaf();
    },
  };
}
