/**
 * Links that sign in one browser, once.
 *
 * A token is 32 random bytes and stands behind the `#` of a link, which no browser sends and no log sees. It is good for one exchange, for ten minutes, in
 * the process that made it, which keeps only its hash. So a link that is found later, in a terminal's scroll-back or a screenshot, opens nothing (E4).
 */
import { hash, randomBytes } from "node:crypto";
import { putLast } from "../protocol/put-last.ts";

const TOKEN_BYTES = 32;
const LIFE_MS = 10 * 60_000;
/** So many are good at a time; beyond, the oldest is forgotten. */
const LINKS_MAX = 16;

export class SignInLinks {
  readonly #now: () => number;
  /** By the hash of a token: until when it is good. */
  readonly #open = new Map<string, number>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** What stands behind the address of the page. */
  issue(): string {
    const token = randomBytes(TOKEN_BYTES).toString("base64url");
    putLast(this.#open, hash("sha256", token), this.#now() + LIFE_MS, LINKS_MAX);
    return `#sign-in=${token}`;
  }

  /** What `make` makes, for the first that brings a good token; undefined for all others. A token whose `make` failed is good again. */
  async redeem(token: string, make: () => Promise<string>): Promise<string | undefined> {
    const mark = hash("sha256", token);
    const untilMs = this.#open.get(mark);
    if (untilMs === undefined) return undefined;
    this.#open.delete(mark);
    if (this.#now() >= untilMs) return undefined;
    try {
      return await make();
    } catch (cause) {
      this.#open.set(mark, untilMs);
      throw cause;
    }
  }
}
