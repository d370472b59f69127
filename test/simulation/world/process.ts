/**
 * A process: a lifetime to which everything is bound that a driver gets from the world.
 *
 * One idea: every call that leaves the process goes through `effect`, so there is a place to die
 * before and after each of them, in the middle of the driver's own code. What runs on after a crash
 * is a zombie: its timers never fire, its disk calls never settle, its frames go nowhere.
 *
 * Invariant: nothing a dead process does changes the world, and nothing of the world reaches it.
 */
import type { Environment } from "../../../src/transport/environment.ts";
import type { Owner } from "./event-queue.ts";
import type { Random } from "./random.ts";
import { TURN_KINDS, type World } from "./world.ts";

/** Every kind of call that leaves a process, hence every kind of crash point. */
export const EFFECT_KINDS = [
  "timer",
  "connect",
  "wire.write",
  "wire.end",
  "disk.append",
  "disk.sync",
  "disk.read",
  "disk.replace",
  "disk.remove",
  "disk.drop",
] as const;
export type EffectKind = (typeof EFFECT_KINDS)[number];

export const PROCESS_KINDS: readonly string[] = [
  "process.crash",
  "process.pause",
  "process.clock_jump",
  ...TURN_KINDS,
  ...EFFECT_KINDS.flatMap((kind) => [`crash.before.${kind}`, `crash.after.${kind}`]),
];

export type CrashWhen = "before" | "after";

/** The clock of a machine; it goes on while its process is restarted. */
export interface MachineClock {
  /** How far it is ahead of the world. */
  skewMs: number;
  /** How much too fast it goes: 0.001 gains a millisecond per second. */
  drift: number;
}

export interface SimProcessOptions {
  readonly clock?: MachineClock;
  readonly incarnation?: number;
}

interface Held {
  readonly run: () => void;
  readonly label: string | undefined;
}

/** What the world's time 0 is by a clock without skew: 2025-06-15. Any date will do, as long as it stays. */
export const EPOCH_MS = 1_750_000_000_000;

export class SimProcess implements Owner {
  readonly world: World;
  readonly name: string;
  readonly incarnation: number;
  readonly clock: MachineClock;
  readonly env: Environment;
  alive = true;
  /** How many effects it has had: run once, count, then crash at each of them in turn. */
  effects = 0;
  /** Told of each effect, before it is carried out. */
  onEffect: ((kind: EffectKind) => void) | undefined;

  readonly #random: Random;
  readonly #crashHooks = new Set<() => void>();
  readonly #backlog: Held[] = [];
  #crashAt = -1;
  #crashKind: EffectKind | undefined;
  #crashWhen: CrashWhen = "before";
  #pausedUntilMs = 0;

  constructor(world: World, name: string, options: SimProcessOptions = {}) {
    this.world = world;
    this.name = name;
    this.incarnation = options.incarnation ?? 1;
    this.clock = options.clock ?? { skewMs: 0, drift: 0 };
    this.#random = world.random.fork(`process ${name} ${this.incarnation}`);
    const random = this.#random.fork("env");
    this.env = {
      now: () => EPOCH_MS + Math.floor(world.nowMs * (1 + this.clock.drift)) + this.clock.skewMs,
      monotonic: () => world.nowMs * (1 + this.clock.drift),
      after: (delayMs, run) => this.effect("timer", () => this.#startTimer(delayMs, run), ignore),
      random: () => random.float(),
      randomBytes: (length) => random.bytes(length),
      ...(world.turns === "at_once" ? {} : { turnOver: (run) => this.#turnOver(run) }),
    };
  }

  #turnOver(run: () => void): void {
    const { turns } = this.world;
    this.world.hit(`turn.over.${turns}`);
    if (turns === "ticks") process.nextTick(run);
    else this.env.after(0, run);
  }

  /** The next life of the same machine: same name and clock, nothing else in common. */
  restart(): SimProcess {
    if (this.alive) this.crash();
    return new SimProcess(this.world, this.name, { clock: this.clock, incarnation: this.incarnation + 1 });
  }

  /** Carries out one effect, unless the process is dead or dies right before; then the answer is `dead`. */
  effect<T>(kind: EffectKind, perform: () => T, dead: T): T {
    if (!this.alive) return dead;
    this.effects++;
    this.onEffect?.(kind);
    if (this.effects !== this.#crashAt && kind !== this.#crashKind) return perform();

    this.world.hit(`crash.${this.#crashWhen}.${kind}`);
    this.world.trace(this.name, `dies ${this.#crashWhen}`, kind);
    if (this.#crashWhen === "before") {
      this.crash();
      return dead;
    }
    const result = perform();
    this.crash();
    return result;
  }

  /** The n-th effect from now (1 is the next) kills the process; without `when` the seed decides. */
  crashAtEffect(n: number, when?: CrashWhen): void {
    this.#crashAt = this.effects + n;
    this.#crashWhen = when ?? (this.#random.chance(0.5) ? "before" : "after");
  }

  /** The next effect of this kind kills the process: for kinds that counting would hardly ever meet. */
  crashAtKind(kind: EffectKind): void {
    this.#crashKind = kind;
    this.#crashWhen = this.#random.chance(0.5) ? "before" : "after";
  }

  crash(): void {
    if (!this.alive) return;
    this.alive = false;
    this.#backlog.length = 0;
    this.world.hit("process.crash");
    this.world.trace(this.name, "crashed");
    for (const hook of this.#crashHooks) hook();
    this.#crashHooks.clear();
  }

  /** Called once, inside the crash; returns how to take it back. */
  onCrash(hook: () => void): () => void {
    this.#crashHooks.add(hook);
    return () => this.#crashHooks.delete(hook);
  }

  /** A long stop of the whole process (collector, hypervisor, lid): the world goes on without it. */
  pause(durationMs: number): void {
    if (!this.alive) return;
    this.world.hit("process.pause");
    this.world.trace(this.name, "paused for", durationMs);
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, this.world.nowMs + Math.round(durationMs));
    this.world.enqueue(durationMs, this.#wake, undefined, undefined);
  }

  get paused(): boolean {
    return this.#pausedUntilMs > this.world.nowMs;
  }

  /** Moves the wall clock; timers, being monotonic, do not notice. */
  jumpClock(byMs: number): void {
    this.clock.skewMs += byMs;
    this.world.hit("process.clock_jump");
    this.world.trace(this.name, "clock jumps by", byMs);
  }

  /** Lets something reach the process now, or when it wakes, or never. */
  notify(run: () => void, label?: string): void {
    if (this.alive && !this.hold(run, label)) run();
  }

  hold(run: () => void, label: string | undefined): boolean {
    // A backlog that is still being worked off must not be overtaken.
    if (!this.paused && this.#backlog.length === 0) return false;
    this.#backlog.push({ run, label });
    return true;
  }

  #startTimer(delayMs: number, run: () => void): () => void {
    let set = true;
    // The flag is for a timer that came due in a pause: it can still be cancelled before it is run.
    const fire = (): void => {
      if (set) run();
    };
    const cancel = this.world.schedule(delayMs / (1 + this.clock.drift), fire, "timer", this);
    return () => {
      set = false;
      cancel();
    };
  }

  readonly #wake = (): void => {
    if (!this.alive || this.paused) return;
    const held = this.#backlog.shift();
    if (held === undefined) return;
    if (this.#backlog.length > 0) this.world.enqueue(0, this.#wake);
    if (held.label !== undefined) this.world.trace(this.name, held.label, "(late)");
    held.run();
  };
}

function ignore(): void {}
