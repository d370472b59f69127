/**
 * Connections whose two directions are different requests: the server's half is the production one (`SplitConnection`), which puts appends
 * that overtook each other in order again; the simulated network lets them do so.
 *
 * Checked here is what that half promises: chunks are handed over in order (A1), and an append is answered when what it carries is durable (A3).
 */
import type { AppendOutcome } from "../../src/protocol/append-codec.ts";
import { decodeServerFrame } from "../../src/protocol/frame-codec.ts";
import type { ClientFrame, ServerFrame } from "../../src/protocol/frames.ts";
import { SplitConnection } from "../../src/transport/node/split-connection.ts";
import type { Accept, AcceptedMeta, Handler } from "../../src/transport/transport.ts";
import type { Truth } from "./truth.ts";
import type { World } from "./world/index.ts";

export interface SplitContext {
  readonly world: World;
  readonly truth: () => Truth;
}

export function splitAccept({ world, truth }: SplitContext, accept: Accept): Accept {
  const answered = ({ principal, idempotencyKey }: AcceptedMeta, outcome: AppendOutcome): void => {
    if ("error" in outcome || outcome.nextSeqno === undefined) return;
    world.hit("split.answered");
    const durable = truth().of(principal, idempotencyKey)?.chunks.length ?? 0;
    if (outcome.nextSeqno > durable)
      world.fail(
        new Error(`A3: an append was answered at ${outcome.nextSeqno}, ${durable} chunks are durable`),
      );
  };
  return (meta, wire) => {
    const outlet = {
      write: (messages: readonly Uint8Array[]) =>
        wire.write(messages.map((message) => decodeServerFrame(message))),
      end: () => wire.end(),
    };
    const ordered = inOrder(world, accept);
    const connection = new SplitConnection(meta, "", outlet, ordered, () => undefined);
    return {
      received: (frame) => connection.append([frame], (outcome) => answered(meta, outcome)),
      drained: () => connection.drained(),
      closed: (reason) => connection.close(reason),
    } satisfies Handler<ClientFrame>;
  };
}

/** After the welcome no chunk is handed over whose predecessor was not, whatever was lost or late on the way. */
function inOrder(world: World, accept: Accept): Accept {
  return (meta, wire) => {
    let next: number | undefined;
    let said = 0;
    const welcomed = (frame: ServerFrame): void => {
      if (frame.kind === "welcome") next = Math.max(frame.nextSeqno, next ?? said);
    };
    const handler = accept(meta, {
      write(frames) {
        frames.forEach(welcomed);
        return wire.write(frames);
      },
      end: () => wire.end(),
    });
    return {
      received(frame) {
        if (frame.kind === "attach" && frame.firstChunk !== undefined) said = 1;
        if ((frame.kind === "chunk" || frame.kind === "close") && next !== undefined) {
          if (frame.seqno > next)
            world.fail(new Error(`A1: chunk ${frame.seqno} was handed over before ${next}`));
          next = Math.max(next, frame.seqno + 1);
        }
        handler.received(frame);
      },
      drained: () => handler.drained(),
      closed: (reason) => handler.closed(reason),
    };
  };
}
