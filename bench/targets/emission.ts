/**
 * What a model does to a server: makes events appear on its streams.
 *
 * The same in every variant, so that they differ in what they do with an event and in nothing else:
 * one event for each stream in turn, either as fast as the readers take them (`saturate`, with a bounded
 * number under way) or at a steady rate (`pace`).
 */
import { busyMeter, type Command } from "../harness/child.ts";
import { listenForCredit } from "../harness/credit.ts";
import { eventBody, stampedBody } from "../harness/body.ts";
import { type Arguments, type Measured, numberIn } from "../harness/numbers.ts";

/** A stream that events can be put on. */
export type Outlet = (body: Buffer) => void;

export class Emission {
  readonly #outlets: Outlet[] = [];
  #emitted = 0;
  #received = 0;
  /** 0 while nothing is wanted. */
  #windowEvents = 0;
  #limit = Number.POSITIVE_INFINITY;
  #isPumping = false;
  #eventsPerTurn = 1;
  /** The only stream that gets events, or -1: all do. */
  #only = -1;
  #timer: NodeJS.Timeout | undefined;
  #busy: (() => Measured) | undefined;

  add(outlet: Outlet): () => void {
    this.#outlets.push(outlet);
    return () => {
      const at = this.#outlets.indexOf(outlet);
      if (at !== -1) this.#outlets.splice(at, 1);
    };
  }

  async listen(): Promise<{ readonly port: number }> {
    return listenForCredit((received) => {
      this.#received = received;
      this.#pump();
    });
  }

  readonly commands: Readonly<Record<string, Command>> = {
    saturate: (given) => this.#saturate(given),
    pace: (given) => this.#pace(given),
    pause: () => this.#pause(),
    meter: () => {
      this.#busy = busyMeter();
      return { emitted: this.#emitted };
    },
    metered: () => ({ ...this.#busy?.(), emitted: this.#emitted }),
  };

  #saturate(given: Arguments): Measured {
    this.#windowEvents = numberIn(given, "windowEvents");
    if ("total" in given) this.#limit = numberIn(given, "total");
    if ("only" in given) this.#only = numberIn(given, "only");
    if ("eventsPerTurn" in given) this.#eventsPerTurn = numberIn(given, "eventsPerTurn");
    this.#pump();
    return {};
  }

  /**
   * At most one event for each stream in a turn of the event loop, unless asked otherwise: a model's deltas
   * come one by one, and a server that writes at once must not look better because several came together.
   */
  #pump(): void {
    if (this.#outlets.length === 0 || this.#windowEvents === 0 || this.#isPumping) return;
    const through = Math.min(this.#limit, this.#received + this.#windowEvents);
    const turn = Math.min(through, this.#emitted + this.#eventsPerTurn * this.#outlets.length);
    while (this.#emitted < turn) this.#emit(body);
    if (turn === through) return;
    this.#isPumping = true;
    setImmediate(() => {
      this.#isPumping = false;
      this.#pump();
    });
  }

  #pace(given: Arguments): Measured {
    const perMs = numberIn(given, "perSecond") / 1000;
    const startedMs = performance.now();
    const before = this.#emitted;
    this.#timer = setInterval(() => {
      const due = before + Math.floor((performance.now() - startedMs) * perMs);
      while (this.#emitted < due) this.#emit(stampedBody());
    }, 1);
    return {};
  }

  #pause(): Measured {
    this.#windowEvents = 0;
    clearInterval(this.#timer);
    return { emitted: this.#emitted };
  }

  #emit(event: Buffer): void {
    const at = this.#only === -1 ? this.#emitted % this.#outlets.length : this.#only;
    this.#outlets[at]?.(event);
    this.#emitted++;
  }
}

const body = eventBody();
