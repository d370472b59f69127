/**
 * What the gateway asks about an API key that may spend so many tokens in a day. The server counts where it calls its models; the gateway asks before it has anything generated, and names the API key that pays.
 */
import type { Payer } from "../transport/transport.ts";
import { tokensNotCounted, tokensUsed } from "./refusals.ts";

export interface Spending {
  /** How long it is until the API key may spend again; undefined: it may now. */
  waitMs(payer: Payer): Promise<number | undefined>;
  /** From now on this API key pays for the stream's model calls; undefined: one without a limit does. */
  charge(
    stream: { readonly principal: string; readonly idempotencyKey: string },
    payer: Payer | undefined,
  ): Promise<void>;
  /** Counts what belongs to no stream. */
  spend(apiKeyId: string, tokens: number): Promise<void>;
}

/** A request, as far as spending is concerned. */
interface Spender {
  readonly apiKeyId?: string;
  readonly tokensPerDay?: number | undefined;
}

/** Undefined where no limit counts. */
export function payerOf({ apiKeyId = "", tokensPerDay }: Spender): Payer | undefined {
  return tokensPerDay === undefined ? undefined : { apiKeyId, tokensPerDay };
}

/** Rejects when the API key has used its tokens of the day, and where none are counted. */
export async function mayAsk(
  spending: Pick<Spending, "waitMs"> | undefined,
  payer: Payer | undefined,
): Promise<void> {
  if (payer === undefined) return;
  if (spending === undefined) throw tokensNotCounted();
  const waitMs = await spending.waitMs(payer);
  if (waitMs !== undefined) throw tokensUsed(payer.tokensPerDay, waitMs);
}
