/**
 * How much memory the bodies of requests may take while they are read, unpacked and looked at (F2).
 *
 * Every byte is charged before it is kept: as it comes in, and once more as it is unpacked, since a hundred bytes can become millions. The
 * charge lasts until the request is accepted or over. No principal may have more than half.
 */
import { GatewayError } from "../openai/index.ts";

/** What one request has taken. */
export interface Charge {
  /** Throws when there is no room, and when the request is over. */
  readonly take: (byteCount: number) => void;
  /** Gives everything back; nothing more can be taken. */
  readonly release: () => void;
}

export class BodyMemory {
  readonly #bytesMax: number;
  readonly #held = new Map<string, number>();
  #heldBytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  begin(principal: string): Charge {
    let taken = 0;
    let isOver = false;
    return {
      take: (byteCount) => {
        if (isOver) throw noRoom("The request is over.");
        this.#take(principal, byteCount);
        taken += byteCount;
      },
      release: () => {
        isOver = true;
        this.#change(principal, -taken);
        taken = 0;
      },
    };
  }

  #take(principal: string, byteCount: number): void {
    const own = (this.#held.get(principal) ?? 0) + byteCount;
    if (own > this.#bytesMax / 2 || this.#heldBytes + byteCount > this.#bytesMax) {
      throw noRoom("Too many large requests are under way. Wait a moment and send it again.");
    }
    this.#change(principal, byteCount);
  }

  #change(principal: string, byteCount: number): void {
    this.#heldBytes += byteCount;
    const own = (this.#held.get(principal) ?? 0) + byteCount;
    if (own === 0) this.#held.delete(principal);
    else this.#held.set(principal, own);
  }
}

function noRoom(message: string): GatewayError {
  return new GatewayError({
    status: 429,
    type: "rate_limit_error",
    code: "bodies_limit",
    message,
    retryAfterMs: 1_000,
  });
}
