/**
 * What tabs of one origin say to each other about connections.
 *
 * Frames travel as the bytes of the wire, so that nothing has to be trusted twice: the codec checks
 * them. Stream keys and API keys travel too. A BroadcastChannel reaches documents of the same origin
 * and browser profile only, which can read the page's storage and use its keys anyway.
 *
 * What does not parse is ignored: it is no message of ours.
 */
import * as z from "../../protocol/rules.ts";
import { HoldfastError, isErrorCode } from "../../protocol/errors.ts";

/** Changes with the messages, so that tabs with older code do not meet newer ones. */
export const CHANNEL_VERSION = 1;

const BYTES = z.custom<Uint8Array>((value) => value instanceof Uint8Array);
const FRAMES = z.array(BYTES);

/** An error as a plain value: structured cloning would lose its class. */
const REASON = z.object({
  code: z.string(),
  message: z.string(),
  retryAfterMs: z.union([z.number(), z.literal(undefined)]),
});

/** To whichever tab leads. A connection's number is its tab's. */
const OF_TAB = { tab: z.string(), connection: z.number() };
const TO_LEADER = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("ping"), tab: z.string() }),
  z.object({
    ...OF_TAB,
    kind: z.literal("open"),
    meta: z.object({
      idempotencyKey: z.string(),
      streamKey: BYTES,
      conversation: z.optional(z.object({ key: BYTES, keepMs: z.number() })),
      credentials: z.union([z.string(), z.literal(undefined)]),
    }),
  }),
  z.object({ ...OF_TAB, kind: z.literal("frames"), frames: FRAMES }),
  z.object({ ...OF_TAB, kind: z.literal("end") }),
]);
export type ToLeader = z.input<typeof TO_LEADER>;

/** From the leader to one tab. */
const OF_LEADER = { leader: z.string(), connection: z.number() };
const TO_TAB = z.discriminatedUnion("kind", [
  /** I lead and I am awake. Also the news of a new leader, to all tabs. */
  z.object({ kind: z.literal("here"), leader: z.string() }),
  z.object({ ...OF_LEADER, kind: z.literal("frames"), frames: FRAMES }),
  /** So many bytes of this connection, in all, wait for nothing any more. */
  z.object({ ...OF_LEADER, kind: z.literal("taken"), bytes: z.number() }),
  z.object({ ...OF_LEADER, kind: z.literal("closed"), reason: z.union([REASON, z.literal(undefined)]) }),
]);
export type ToTab = z.input<typeof TO_TAB>;
type ClosedReason = z.input<typeof REASON>;

export function reasonOf(error: HoldfastError | undefined): ClosedReason | undefined {
  if (error === undefined) return undefined;
  const { code, message, retryAfterMs } = error;
  return { code, message, retryAfterMs };
}

export function errorOf(reason: ClosedReason | undefined): HoldfastError | undefined {
  if (reason === undefined) return undefined;
  const { code, message, retryAfterMs } = reason;
  return new HoldfastError(isErrorCode(code) ? code : "internal", message, { retryAfterMs });
}

export function parseToLeader(data: unknown): ToLeader | undefined {
  return z.safeParse(TO_LEADER, data).data;
}

export function parseToTab(data: unknown): ToTab | undefined {
  return z.safeParse(TO_TAB, data).data;
}
