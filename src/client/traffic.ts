/**
 * Reports every frame between a client and its server to `onTraffic`: for a view of both logs.
 *
 * It stands around a transport and changes nothing of it. An `onTraffic` that throws is reported as a bug, and costs no frame.
 */
import type { ErrorCode } from "../protocol/errors.ts";
import type { ClientFrame, ServerFrame } from "../protocol/frames.ts";
import type { Connect } from "../transport/transport.ts";

export interface Traffic {
  readonly idempotencyKey: string;
  /** Counts the connections of this client, from 1. */
  readonly connection: number;
  readonly news:
    | { readonly kind: "opened" }
    | { readonly kind: "sent"; readonly frame: ClientFrame }
    | { readonly kind: "received"; readonly frame: ServerFrame }
    | { readonly kind: "closed"; readonly reason: ErrorCode | undefined };
}

export type OnTraffic = (traffic: Traffic) => void;

export function withTraffic(connect: Connect, onTraffic: OnTraffic, onBug: (bug: unknown) => void): Connect {
  let connections = 0;
  return (meta, handler) => {
    const connection = ++connections;
    const tell = (news: Traffic["news"]): void => {
      try {
        onTraffic({ idempotencyKey: meta.idempotencyKey, connection, news });
      } catch (bug) {
        onBug(bug);
      }
    };
    tell({ kind: "opened" });
    const wire = connect(meta, {
      received: (frame) => {
        tell({ kind: "received", frame });
        handler.received(frame);
      },
      drained: () => handler.drained(),
      closed: (reason) => {
        tell({ kind: "closed", reason: reason?.code });
        handler.closed(reason);
      },
    });
    return {
      write: (frames) => {
        for (const frame of frames) tell({ kind: "sent", frame });
        return wire.write(frames);
      },
      end: () => {
        tell({ kind: "closed", reason: undefined });
        wire.end();
      },
    };
  };
}
