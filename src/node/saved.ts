/**
 * What a server saved its users: each answer, or rest of one, for which no second model call was paid, reported when it happens.
 */
import type { ContinuedBy } from "../agent/models/index.ts";
import type { Mount } from "../server/http/mount.ts";

/**
 * `attached`: a retry reads the answer that is under way. `replayed`: it gets the finished one again. `resumed`: a client reads the rest. `held`: the
 * model call outlived the server that made it, and this one reads it. `continued`: the provider broke off, and the text continues.
 */
export type Saved = "attached" | "replayed" | "resumed" | "held" | "continued";

const BY_ANSWER: ReadonlyMap<string | undefined, Saved> = new Map([
  ["attached", "attached"],
  ["replayed", "replayed"],
  ["resumed", "resumed"],
]);

/** A step that begins anew saves nothing. */
export const SAVED_BY: Readonly<Record<ContinuedBy, Saved | undefined>> = {
  resume: "continued",
  prefill: "continued",
  replay: "held",
  restart: undefined,
};

/** The same mount, whose answers are reported when their responses begin. */
export function tellingSaved(mount: Mount, onSaved: (how: Saved) => void): Mount {
  return {
    ...mount,
    handle: (call) =>
      mount.handle({
        ...call,
        tell: (news) => {
          call.tell(news);
          const saved = BY_ANSWER.get(news.answer);
          if (saved !== undefined) onSaved(saved);
        },
      }),
  };
}
