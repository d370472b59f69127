/**
 * The streams that this node follows, because another one runs them, and what it hears of the other nodes.
 *
 * Invariant: an attach is judged by what the store said behind its coming, never by what was seen before.
 */
import { wantsHost } from "../core/followed-stream.ts";
import type { DropReason } from "../core/host-state.ts";
import type { StreamState } from "../core/stream-state.ts";
import type { AttachFrame } from "../protocol/frames.ts";
import type { Letter, Letters } from "../store/letters.ts";
import type { AcceptedMeta } from "../transport/transport.ts";
import { nameText } from "./entries.ts";
import { canRunWith, FollowedStream } from "./followed.ts";
import type { HostContext } from "./host-context.ts";
import { createNeighbours } from "./neighbours.ts";
import type { Decide } from "./stream-access.ts";
import { readMacs } from "./stream-logs.ts";

interface FollowingParts {
  readonly context: HostContext;
  readonly letters: Letters;
  readonly hostId: string;
  readonly decide: Decide;
  /** Throws when this server takes no streams any more. */
  readonly assertOpen: () => void;
  /** False while it is not known yet whether the letter concerns this node. */
  readonly take: (letter: Letter) => boolean;
}

export function createFollowing({ context, letters, hostId, decide, assertOpen, take }: FollowingParts) {
  const followed = new Map<string, FollowedStream>();
  const neighbours = createNeighbours({ context, letters, hostId, followed: () => followed.values(), take });
  const { store } = context;

  /** Behind `decide`: the client may have the stream. */
  function needsHost({ conversation }: AcceptedMeta, attach: AttachFrame, state: StreamState): boolean {
    const isOver = state.end !== undefined && attach.role === "reader";
    return !isOver && wantsHost(attach, canRunWith(state, attach, conversation));
  }

  return {
    needsHost,
    /** A stream that is followed already, as it is now. */
    async find(meta: AcceptedMeta, attach: AttachFrame): Promise<FollowedStream | undefined> {
      const stream = followed.get(nameText(meta));
      if (stream === undefined) return undefined;
      const [seen] = await store.look([stream.name]);
      if (seen !== undefined) await stream.see(seen);
      if (stream.isDropped) return undefined;
      decide(meta, attach, { kind: "live", state: stream.durable }, 0);
      if (stream.isHeld || !needsHost(meta, attach, stream.durable)) return stream;
      stream.drop("moved");
      return undefined;
    },
    /** Begins to follow a stream that another node runs, or that this client only reads; undefined when it needs a host and has none. */
    async begin(meta: AcceptedMeta, attach: AttachFrame): Promise<FollowedStream | undefined> {
      const name = { principal: meta.principal, idempotencyKey: meta.idempotencyKey };
      const [seen] = await store.look([name]);
      if (seen?.kind !== "live") return undefined;
      const isHeld = seen.hostId !== undefined && seen.hostId !== hostId;
      if (!isHeld && needsHost(meta, attach, seen.state)) return undefined;
      const macs = await readMacs(store, name, 0, seen.state.nextSeqno);
      assertOpen();
      const id = nameText(name);
      const onDropped = (stream: FollowedStream): void => {
        if (followed.get(id) === stream) followed.delete(id);
      };
      const stream = new FollowedStream({ context, letters, hostId, onDropped }, meta, seen, macs);
      followed.set(id, stream);
      return stream;
    },
    tick(): void {
      for (const stream of followed.values()) {
        stream.tick();
        if (stream.isIdle) stream.drop("moved");
      }
    },
    stop(reason: DropReason): void {
      neighbours.stop();
      for (const stream of followed.values()) stream.drop(reason);
    },
  };
}
