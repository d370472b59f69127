/**
 * A connection that was asked for before it is known who will carry it: keeps what is written until
 * then, and is the real one from then on.
 */
import { frameBytes } from "../../transport/memory.ts";
import type { HoldfastError } from "../../protocol/errors.ts";
import type { ClientFrame, ServerFrame } from "../../protocol/frames.ts";
import type { ClientMeta, Connect, Handler, Wire } from "../../transport/transport.ts";

export interface PendingConnection extends Wire<ClientFrame> {
  bind(connect: Connect): void;
  close(reason: HoldfastError): void;
}

export function pendingConnection(meta: ClientMeta, handler: Handler<ServerFrame>): PendingConnection {
  const written: ClientFrame[] = [];
  let waitingBytes = 0;
  let isEnded = false;
  let wire: Wire<ClientFrame> | undefined;

  return {
    write(frames) {
      if (wire !== undefined) return wire.write(frames);
      if (isEnded) return waitingBytes;
      written.push(...frames);
      for (const frame of frames) waitingBytes += frameBytes(frame);
      return waitingBytes;
    },
    end() {
      isEnded = true;
      wire?.end();
    },
    bind(connect) {
      wire = connect(meta, handler);
      const wait = written.length > 0 ? wire.write(written) : 0;
      if (wait === 0 && waitingBytes > 0) handler.drained();
      if (isEnded) wire.end();
    },
    close: (reason) => handler.closed(reason),
  };
}
