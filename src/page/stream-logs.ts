/**
 * The logs of the streams that this tab has seen, by their names: what the stream view looks at.
 */
import { useCallback, useSyncExternalStore } from "react";
import type { Traffic } from "../react/index.ts";
import { StreamLog } from "./stream-log.ts";

/** Of so many streams; beyond, the one that was begun first is forgotten. */
const STREAMS_MAX = 8;
/** A person does not read faster. */
const TELL_MS = 50;

export class StreamLogs {
  readonly #logs = new Map<string, StreamLog>();
  readonly #listeners = new Set<() => void>();
  #isTelling = false;

  readonly put = (traffic: Traffic): void => {
    const { idempotencyKey: name } = traffic;
    const log = this.#logs.get(name) ?? new StreamLog();
    this.#logs.set(name, log);
    if (this.#logs.size > STREAMS_MAX) this.#logs.delete(this.#logs.keys().next().value ?? "");
    log.put(traffic, performance.now());
    if (this.#isTelling) return;
    this.#isTelling = true;
    setTimeout(() => {
      this.#isTelling = false;
      for (const listener of this.#listeners) listener();
    }, TELL_MS);
  };

  of(name: string): StreamLog | undefined {
    return this.#logs.get(name);
  }

  watch(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }
}

/** The log of that name, drawn anew when it has changed. */
export function useStreamLog(logs: StreamLogs, name: string): StreamLog | undefined {
  const watch = useCallback((listener: () => void) => logs.watch(listener), [logs]);
  useSyncExternalStore(watch, () => logs.of(name)?.version ?? 0);
  return logs.of(name);
}
