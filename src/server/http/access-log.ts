/**
 * What the server says about its requests: one line each, when it is over.
 *
 * A line names what can be counted and found again, never what was said: no bodies, no keys, no headers, no paths that a client chose.
 * A stream is named by a hash of its name, so that a log tells which lines belong together and nothing else (E4).
 */
import { hash } from "node:crypto";
import type { Logger } from "pino";
import type { ErrorCode } from "../../protocol/errors.ts";
import type { Accept } from "../../transport/transport.ts";
import { nameText } from "../entries.ts";
import type { HttpCounters, RequestKind } from "./http-counters.ts";

/** Of the gateway: what broke at the provider while the request read its answer, as `text/eof,text/reset*2`. */
export interface ProviderBreaks {
  /** Where, and why. */
  readonly broke: string | undefined;
  /** How the answer that was cut off, or broke, was continued. */
  readonly continued: string | undefined;
}

export interface RequestLine extends Partial<ProviderBreaks> {
  readonly requestId: string;
  readonly kind: RequestKind;
  /** Of the gateway: which of its routes, never the path itself. */
  readonly route: string | undefined;
  readonly method: string;
  /** Where it came from. */
  readonly remote: string;
  readonly http: 1 | 2;
  readonly principal: string | undefined;
  readonly stream: string | undefined;
  /** Of the gateway: what the model did for it. */
  readonly answer: string | undefined;
  readonly status: number;
  /** Why it was refused, by this edge or by the gateway. */
  readonly error: string | undefined;
  readonly durationMs: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
}

/** Asked for so often that a line each would drown the others: they are lines for debugging. */
const QUIET: ReadonlySet<RequestKind> = new Set(["append", "health", "ready", "metrics", "preflight"]);

export function logRequest(logger: Logger, line: RequestLine): void {
  if (line.status >= 500) logger.error(line, "request failed");
  else if (line.error !== undefined || line.status >= 400) logger.warn(line, "request refused");
  else if (QUIET.has(line.kind)) logger.debug(line, "request");
  else logger.info(line, "request");
}

/** Twelve hexadecimal digits: enough to tell a node's streams apart. */
export function streamHash(principal: string, idempotencyKey: string): string {
  return hash("sha256", nameText({ principal, idempotencyKey })).slice(0, 12);
}

/** Wraps a server's `accept` so that each connection of a stream leaves one line. */
export function loggedAccept(accept: Accept, logger: Logger, counters: HttpCounters): Accept {
  let connections = 0;
  return (meta, wire) => {
    const connection = ++connections;
    const beganMs = performance.now();
    let error: ErrorCode | undefined;
    let eventId = 0;
    let isEnded = false;
    counters.connectionsOpen++;
    const handler = accept(meta, {
      write: (frames) => {
        const last = frames.at(-1);
        if (last?.kind === "error") error = last.code;
        else if (last?.kind === "event") {
          ({ eventId } = last);
          isEnded = last.end !== undefined;
        }
        return wire.write(frames);
      },
      end: () => wire.end(),
    });
    return {
      received: (frame) => handler.received(frame),
      drained: () => handler.drained(),
      closed: (reason) => {
        counters.connectionsOpen--;
        logger.info(
          {
            connection,
            principal: meta.principal,
            stream: streamHash(meta.principal, meta.idempotencyKey),
            error: error ?? reason?.code,
            lastEventId: eventId,
            streamEnded: isEnded,
            durationMs: Math.round(performance.now() - beganMs),
          },
          "connection over",
        );
        handler.closed(reason);
      },
    };
  };
}

/** The error, its causes and their stacks: bugs are ours, and hold no words of users. */
export function logBug(logger: Logger, bug: unknown): void {
  logger.error({ err: bug instanceof Error ? bug : new Error(String(bug)) }, "bug");
}
