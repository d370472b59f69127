/**
 * What the conformance suite needs to run over the split transports.
 *
 * They cannot begin without an attach, and answer an append only when its chunks are acknowledged; the suite speaks of bare frames. So its
 * connections are begun with an attach that its servers do not see, and its chunks are acknowledged by acks that its clients do not see.
 */
import type { Accept, Connect } from "../../src/transport/index.ts";
import type { AttachFrame } from "../../src/protocol/frames.ts";

export const ATTACH: AttachFrame = {
  kind: "attach",
  protocolVersion: 1,
  mode: "open",
  role: "writer",
  eventId: 0,
  journalId: "journal",
  fresh: false,
  abort: false,
  firstChunk: undefined,
};

export function acknowledging(accept: Accept): Accept {
  return (meta, wire) => {
    const handler = accept(meta, wire);
    return {
      received(frame) {
        if (frame.kind === "chunk") wire.write([{ kind: "ack", seqno: frame.seqno }]);
        if (frame.kind !== "attach") handler.received(frame);
      },
      drained: () => handler.drained(),
      closed: (reason) => handler.closed(reason),
    };
  };
}

export function attaching(connect: Connect): Connect {
  return (meta, handler) => {
    let hasWritten = false;
    const wire = connect(meta, {
      received(frame) {
        if (frame.kind !== "ack") handler.received(frame);
      },
      drained() {
        if (hasWritten) handler.drained();
      },
      closed: (reason) => handler.closed(reason),
    });
    wire.write([ATTACH]);
    return {
      write(frames) {
        hasWritten = true;
        return wire.write(frames);
      },
      end: () => wire.end(),
    };
  };
}
