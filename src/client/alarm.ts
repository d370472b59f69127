/**
 * One timer that follows what the machine wants: to be woken at a moment, at another one, or not.
 */
import type { SteadyClock } from "../transport/environment.ts";

export function alarmOf(clock: SteadyClock, ring: () => void) {
  let alarm: { readonly atMs: number; readonly cancel: () => void } | undefined;

  function set(atMs: number | undefined): void {
    if (alarm?.atMs === atMs) return;
    alarm?.cancel();
    alarm = undefined;
    if (atMs === undefined) return;
    const cancel = clock.after(Math.max(0, atMs - clock.now()), () => {
      alarm = undefined;
      ring();
    });
    alarm = { atMs, cancel };
  }

  return {
    set,
    /** For other moments at which something runs: a browser lets the timers of a hidden tab wait for a minute. */
    ringIfDue(nowMs: number): void {
      if (alarm === undefined || alarm.atMs > nowMs) return;
      set(undefined);
      ring();
    },
  };
}
