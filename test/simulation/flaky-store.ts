/**
 * A store as a server sees it: sometimes away, and with a shared database sometimes silent after the
 * work was done.
 *
 * The last is the nasty one: the commit is durable and the node is told that it failed (D5 must hold
 * in both directions: never promise too much, never do it twice).
 */
import { HoldfastError } from "../../src/protocol/errors.ts";
import type { Letters } from "../../src/store/letters.ts";
import type { StreamStore } from "../../src/store/stream-store.ts";
import type { Random, SimProcess, World } from "./world/index.ts";

export interface StoreFaults {
  /** Every call is refused until then. */
  downUntilMs: number;
  /** How likely the reply of a call gets lost; only between processes. */
  replyLost: number;
  /** How long a call to another process takes at most, each way. */
  delayMsMax: number;
  /** How likely a hint to another node gets lost. */
  hintLost: number;
  /** How much later than other replies those to looks may come: a later look is answered first. */
  lookLateMsMax: number;
  /** The node that commits next falls asleep for so long, with its commit under way. */
  sleepAtCommitMs: number;
  /** How likely the database undoes a group for the sake of another, refuses it, commits it with a warning, or gets it when its connection was long given up. */
  undone: number;
  refused: number;
  warned: number;
  late: number;
}

export interface FlakyStoreContext {
  readonly world: World;
  readonly random: Random;
  readonly faults: StoreFaults;
  /** The process that calls. */
  readonly process: SimProcess;
  /** The process that the store lives in, and the store, as long as both are there. */
  readonly target: () => { readonly process: SimProcess; readonly store: StreamStore } | undefined;
  /** The store meets outages by itself. */
  readonly isDriven?: boolean;
}

export function flakyStore(context: FlakyStoreContext): StreamStore {
  const call = <Result>(run: (store: StreamStore) => Promise<Result>): Promise<Result> =>
    callStore(context, run);
  return {
    durability: "fsync",
    now: () => call((store) => store.now()),
    load: (name) => call((store) => store.load(name)),
    look: (names) => {
      const found = call((store) => store.look(names));
      return context.faults.lookLateMsMax === 0 ? found : late(context, found);
    },
    create: (creation) => call((store) => store.create(creation)),
    claim: (name, host) => call((store) => store.claim(name, host)),
    renew: (name, hostEpoch, leaseMs) => call((store) => store.renew(name, hostEpoch, leaseMs)),
    release: (name, hostEpoch) => call((store) => store.release(name, hostEpoch)),
    commit: (commit) => {
      if (commit.letters !== undefined) context.world.hit("store.letter_dealt_with");
      const committed = call((store) => store.commit(commit));
      const { faults, process } = context;
      if (faults.sleepAtCommitMs > 0) process.pause(faults.sleepAtCommitMs);
      faults.sleepAtCommitMs = 0;
      return committed;
    },
    readEvents: (name, from, bytesMax) => call((store) => store.readEvents(name, from, bytesMax)),
    readChunks: (name, from, bytesMax) => call((store) => store.readChunks(name, from, bytesMax)),
    countOpen: (principal) => call((store) => store.countOpen(principal)),
    listIdle: (beforeMs, countMax) => call((store) => store.listIdle(beforeMs, countMax)),
    expire: (name, hostEpoch) => call((store) => store.expire(name, hostEpoch)),
    forgetGone: (beforeMs) => call((store) => store.forgetGone(beforeMs)),
    tidy: (quietSinceMs) => call((store) => store.tidy(quietSinceMs)),
    close: () => Promise.resolve(),
  };
}

export interface FlakyLettersContext extends Omit<FlakyStoreContext, "target"> {
  readonly target: () => { readonly process: SimProcess; readonly store: Letters } | undefined;
  /** Where hints come from, whichever life the database is in. */
  readonly listen: Letters["listen"];
}

export function flakyLetters(context: FlakyLettersContext): Letters {
  const { world, random, faults, process } = context;
  return {
    post: (letter) => {
      world.hit("store.letter");
      return callStore(context, (letters) => letters.post(letter));
    },
    read: (to, countMax) => callStore(context, (letters) => letters.read(to, countMax)),
    discard: (numbers) => callStore(context, (letters) => letters.discard(numbers)),
    listen: (hear) =>
      context.listen((hint) => {
        if (random.chance(faults.hintLost)) world.hit("store.hint_lost");
        else world.enqueue(random.int(faults.delayMsMax + 1), () => hear(hint), undefined, process);
      }),
  };
}

function callStore<Store, Result>(
  context: Omit<FlakyStoreContext, "target"> & {
    readonly target: () => { readonly process: SimProcess; readonly store: Store } | undefined;
  },
  run: (store: Store) => Promise<Result>,
): Promise<Result> {
  const { world, random, faults, process, isDriven = false } = context;
  const down = (): HoldfastError => new HoldfastError("unavailable", "the store does not answer");
  if (!isDriven && world.nowMs < faults.downUntilMs) {
    world.hit("store.down");
    return Promise.reject(down());
  }
  const target = context.target();
  if (target === undefined) return Promise.reject(down());
  const isRemote = target.process !== process;
  if (!isRemote) return run(target.store);

  return new Promise((resolve, reject) => {
    const reply = (answer: () => void): void => {
      world.enqueue(random.int(faults.delayMsMax + 1), answer, undefined, process);
    };
    const request = (): void => {
      run(target.store).then(
        (result) => {
          if (!random.chance(faults.replyLost)) return reply(() => resolve(result));
          world.hit("store.reply_lost");
          return reply(() => reject(down()));
        },
        (cause: unknown) => reply(() => reject(asError(cause))),
      );
    };
    world.enqueue(random.int(faults.delayMsMax + 1), request, undefined, target.process);
    // A database that died with the request says nothing: the caller gives up after a while.
    target.process.onCrash(() => reply(() => reject(down())));
  });
}

async function late<Result>(
  { world, random, faults, process }: FlakyStoreContext,
  reply: Promise<Result>,
): Promise<Result> {
  const result = await reply;
  world.hit("store.look_late");
  await new Promise<void>((resolve) =>
    world.enqueue(random.int(faults.lookLateMsMax), resolve, undefined, process),
  );
  return result;
}

function asError(cause: unknown): Error {
  return cause instanceof Error ? cause : new Error(String(cause));
}
