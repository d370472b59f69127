/**
 * Whether a connection may have the stream that it asks for.
 *
 * A wrong stream key, another principal's stream and no stream are one answer, given before anything else happens, and only so often (D4, E1, E2).
 */
import { findStream, type Found } from "../core/attach.ts";
import * as budget from "../core/budget.ts";
import { HoldfastError } from "../protocol/errors.ts";
import type { AttachFrame } from "../protocol/frames.ts";
import { putLast } from "../protocol/put-last.ts";
import type { Absent, Gone, Live } from "../store/stream-store.ts";
import type { AcceptedMeta } from "../transport/transport.ts";
import { nameText } from "./entries.ts";
import type { HostContext } from "./host-context.ts";

/** How often clients may ask for a stream and fail: slow enough to make guessing pointless. */
const VAIN_ATTEMPTS: budget.Options = { burst: 10, refillMs: 5_000 };
const VAIN_STREAMS_MAX = 10_000;

const NO_BYTES = new Uint8Array();

/** Decides what an attach means for what the store has; throws the refusal. Says the check of the stream key, which a stream is made with. */
export type Decide = (
  meta: AcceptedMeta,
  attach: AttachFrame,
  stored: Live | Gone | Absent | undefined,
  openStreams: number,
) => { readonly kind: "create" | "go_on" | "degrade"; readonly keyCheck: Uint8Array };

export function streamAccess(context: Pick<HostContext, "sealing" | "clock">): Decide {
  const vain = new Map<string, budget.State>();

  const decide: Decide = (meta, attach, stored, openStreams) => {
    checkVain(meta);
    const keyCheck = context.sealing.keyCheck(meta.streamKey);
    const finding = findStream(attach, compare(meta, keyCheck, stored), openStreams);
    if (finding.kind !== "refuse") return { kind: finding.kind, keyCheck };
    if (finding.code === "not_found") countVain(meta);
    throw new HoldfastError(finding.code, finding.message);
  };

  /** Compares a key in every case, so that the time taken tells nothing (E1). */
  function compare(
    { conversation }: AcceptedMeta,
    presented: Uint8Array,
    stored: Live | Gone | Absent | undefined,
  ): Found {
    const { sealing } = context;
    const kept =
      stored?.kind === "live" ? stored.state.keyCheck : stored?.kind === "gone" ? stored.keyCheck : presented;
    const isStreamKey = sealing.equal(presented, kept);
    // A client that only reads need not bring the conversation's key; a wrong one is as bad as a wrong stream key.
    const checkOf = stored?.kind === "live" ? stored.state.conversationCheck : undefined;
    const keyMatches =
      isStreamKey &&
      (conversation === undefined ||
        stored?.kind !== "live" ||
        sealing.equal(sealing.keyCheck(conversation.key), checkOf ?? NO_BYTES));
    if (stored === undefined) return { kind: "store_down" };
    return stored.kind === "absent" ? { kind: "absent" } : { kind: stored.kind, keyMatches };
  }

  function checkVain(meta: AcceptedMeta): void {
    const known = vain.get(nameText(meta));
    if (known === undefined) return;
    const [, { waitMs }] = budget.spend(known, context.clock.now());
    if (waitMs > 0)
      throw new HoldfastError("overloaded", "too many failed attempts", { retryAfterMs: waitMs });
  }

  function countVain(meta: AcceptedMeta): void {
    const id = nameText(meta);
    const nowMs = context.clock.now();
    const [next] = budget.spend(vain.get(id) ?? budget.init(VAIN_ATTEMPTS, nowMs), nowMs);
    putLast(vain, id, next, VAIN_STREAMS_MAX);
  }

  return decide;
}
