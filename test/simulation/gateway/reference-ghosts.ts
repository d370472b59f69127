/**
 * Requests that died with their process before the gateway had decided about them: what became of them is not known.
 *
 * Such a request may have left everything behind that its answer needs. Then its retry gets that answer, and so does `/events`: results
 * are in their turn once the session's record is durable, also when their own client never heard of it.
 */
import type { Asked, Clock } from "./reference-answers.ts";

export interface Ghost {
  readonly asked: Asked;
  readonly died: Clock;
  /** The life of the gateway in which it was asked. */
  readonly life: number;
}

export class Ghosts {
  #all: readonly Ghost[] = [];

  died(asked: readonly Asked[], died: Clock, life: number): void {
    this.#all = [...this.#all, ...asked.map((one) => ({ asked: one, died, life }))];
  }

  /** Those that may have been this request. */
  of(asked: Asked): readonly Ghost[] {
    return this.#all.filter((ghost) => isSame(ghost.asked, asked));
  }

  where(isMeant: (asked: Asked) => boolean): readonly Ghost[] {
    return this.#all.filter(({ asked }) => isMeant(asked));
  }

  /** The request has an answer by now. */
  laid(asked: Asked): void {
    this.#all = this.#all.filter((ghost) => !isSame(ghost.asked, asked));
  }
}

function isSame(a: Asked, b: Asked): boolean {
  return isEqual(a, b) && a.key === b.key;
}

export function isEqual(a: Asked, b: Asked): boolean {
  return a.hash === b.hash && a.principal === b.principal;
}
