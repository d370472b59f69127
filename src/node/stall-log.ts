/**
 * Stalls in the log of `holdfast serve`: one line when a stream stands still, one when it moves again.
 *
 * A stream is named by the hash that its other lines have; nothing that was said is in a line (E4).
 */
import type { Logger } from "pino";
import type { StallNews } from "../core/standstill.ts";
import { streamHash } from "../server/http/access-log.ts";

/** Which side noticed: the server that runs the turn, or the gateway, which is a client of it. */
type StallSide = "server" | "client";

interface StalledStream {
  readonly principal: string;
  readonly idempotencyKey: string;
}

export function logStall(
  logger: Logger,
  side: StallSide,
  { principal, idempotencyKey }: StalledStream,
  news: StallNews,
): void {
  const { clock, stuck } = news;
  const about = { side, principal, stream: streamHash(principal, idempotencyKey), clock, stuck };
  switch (news.kind) {
    case "stalled":
      logger.warn({ ...about, stillMs: news.stillMs, unanswered: news.unanswered }, "stall detected");
      return;
    case "resumed":
      logger.info({ ...about, stillMs: news.stillMs }, "activity resumed after a stall");
      return;
    case "ended":
      logger.info(about, "the stream ended during a stall");
      return;
  }
}
