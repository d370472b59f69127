/**
 * A connection of this tab that another tab carries.
 *
 * Keeps the transport's contract on this side: what is written counts as waiting until the leader says
 * that it is on its way, and nothing is heard after `closed`.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import { checkServerFrame } from "../../protocol/frame-check.ts";
import type { ClientFrame, ServerFrame } from "../../protocol/frames.ts";
import { frameBytes } from "../../transport/memory.ts";
import type { ClientMeta, Handler, Wire } from "../../transport/transport.ts";
import { errorOf, ownFrame, type ToLeader, type ToTab } from "./tab-messages.ts";

interface RelayOptions {
  readonly tab: string;
  readonly connection: number;
  readonly meta: ClientMeta;
  readonly handler: Handler<ServerFrame>;
  readonly say: (message: ToLeader) => void;
  readonly onClosed: () => void;
}

export interface RelayedConnection extends Wire<ClientFrame> {
  heard(message: Exclude<ToTab, { kind: "here" }>): void;
  close(reason: HoldfastError | undefined): void;
}

export function relayedConnection({
  tab,
  connection,
  meta,
  handler,
  say,
  onClosed,
}: RelayOptions): RelayedConnection {
  let sentBytes = 0;
  let takenBytes = 0;
  let isEnded = false;
  let isClosed = false;

  function end(): void {
    if (isEnded) return;
    isEnded = true;
    say({ kind: "end", tab, connection });
  }

  function close(reason: HoldfastError | undefined): void {
    if (isClosed) return;
    isEnded = true;
    isClosed = true;
    onClosed();
    handler.closed(reason);
  }

  const waitingBytes = (): number => sentBytes - takenBytes;

  function received(frame: ServerFrame): void {
    if (isClosed) return;
    try {
      checkServerFrame(frame);
    } catch (cause) {
      end();
      close(HoldfastError.from(cause));
      return;
    }
    handler.received(frame);
  }

  say({ kind: "open", tab, connection, meta });
  return {
    write(frames) {
      if (isEnded || frames.length === 0) return waitingBytes();
      for (const frame of frames) sentBytes += frameBytes(frame);
      say({ kind: "frames", tab, connection, frames: frames.map(ownFrame) });
      return waitingBytes();
    },
    end,
    heard(message) {
      if (isClosed) return;
      switch (message.kind) {
        case "frames":
          for (const frame of message.frames) received(frame);
          return;
        case "taken":
          takenBytes = message.bytes;
          if (waitingBytes() === 0) handler.drained();
          return;
        case "closed":
          close(errorOf(message.reason));
          return;
      }
    },
    close,
  };
}
