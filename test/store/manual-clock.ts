/** A clock that moves only when a test says so. */
export class ManualClock {
  #nowMs = 1_700_000_000_000;
  readonly now = (): number => this.#nowMs;

  advance(ms: number): void {
    this.#nowMs += ms;
  }
}
