/**
 * The tab that holds the connection of its origin: carries the other tabs' connections beside its own.
 *
 * To the transport below, a connection of another tab is one like any other. A tab that goes away
 * says nothing; but its own lock becomes free, and that ends its connections here.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import { checkClientFrame } from "../../protocol/frame-check.ts";
import type { ClientFrame, ServerFrame } from "../../protocol/frames.ts";
import { frameBytes } from "../../transport/memory.ts";
import type { ClientMeta, Connect } from "../../transport/transport.ts";
import type { Channel, Locks, Platform } from "./platform.ts";
import { isToLeader, ownFrame, reasonOf, type ToLeader, type ToTab } from "./tab-messages.ts";

/** How the tabs of one origin that talk to one server find each other. */
export interface TabNames {
  /** The lock of the leader, and the channel to it. */
  readonly leader: string;
  /** The channel to all tabs. */
  readonly all: string;
  /** The lock that a tab holds for its life, and the channel to it. */
  tab(tab: string): string;
}

interface LeadingTabOptions {
  readonly id: string;
  readonly names: TabNames;
  readonly connect: Connect;
  readonly locks: Locks;
  readonly openChannel: Platform["openChannel"];
}

export interface LeadingTab {
  /** Ends the connections of all tabs: they reconnect through the next leader. */
  close(): void;
}

export function leadingTab(options: LeadingTabOptions): LeadingTab {
  const { id: leader, names, connect, locks, openChannel } = options;
  const tabs = new Map<string, FollowingTab>();

  function meet(id: string): FollowingTab {
    const gone = new AbortController();
    const tab = followingTab(leader, openChannel(names.tab(id)), connect, gone);
    tabs.set(id, tab);
    const held = (): undefined => {
      tabs.delete(id);
      tab.close(new HoldfastError("connection_lost", "the tab is gone"));
    };
    // Rejects only when this tab stops waiting for it.
    locks.request(names.tab(id), { signal: gone.signal }, held).catch(() => undefined);
    return tab;
  }

  const inbox = openChannel(names.leader, (data) => {
    if (isToLeader(data)) (tabs.get(data.tab) ?? meet(data.tab)).said(data);
  });
  const everybody = openChannel(names.all);
  everybody.post({ kind: "here", leader } satisfies ToTab);
  everybody.close();
  return {
    close() {
      inbox.close();
      const over = new HoldfastError("connection_lost", "the tab that held the connection was closed");
      for (const tab of tabs.values()) tab.close(over);
      tabs.clear();
    },
  };
}

/** One of the other tabs, as the leader sees it. */
interface FollowingTab {
  said(message: ToLeader): void;
  close(reason: HoldfastError): void;
}

function followingTab(
  leader: string,
  channel: Channel,
  connect: Connect,
  gone: AbortController,
): FollowingTab {
  const connections = new Map<number, Carried>();
  const say = (message: ToTab): void => channel.post(message);
  return {
    said(message) {
      if (message.kind === "ping" || message.kind === "open") say({ kind: "here", leader });
      if (message.kind === "ping") return;
      const { connection } = message;
      if (message.kind === "open") {
        const over = (): void => void connections.delete(connection);
        connections.set(connection, carried(leader, connection, message.meta, { connect, say, over }));
      } else if (message.kind === "end") {
        connections.get(connection)?.end();
      } else {
        const known = connections.get(connection);
        if (known !== undefined) return known.write(message.frames);
        // Opened through a leader that is gone.
        const unknown = new HoldfastError("connection_lost", "the tab that held the connection is gone");
        say({ kind: "closed", leader, connection, reason: reasonOf(unknown) });
      }
    },
    close(reason) {
      for (const connection of connections.values()) {
        connection.end();
        connection.closed(reason);
      }
      gone.abort();
      channel.close();
    },
  };
}

interface Carrying {
  readonly connect: Connect;
  readonly say: (message: ToTab) => void;
  /** Called when the connection is closed. */
  readonly over: () => void;
}

/** A connection of another tab: hears the transport for it. */
interface Carried {
  write(frames: readonly ClientFrame[]): void;
  end(): void;
  closed(reason: HoldfastError | undefined): void;
}

function carried(
  leader: string,
  connection: number,
  meta: ClientMeta,
  { connect, say, over }: Carrying,
): Carried {
  let waiting: ServerFrame[] = [];
  let bytes = 0;
  let isClosed = false;

  function closed(reason: HoldfastError | undefined): void {
    if (isClosed) return;
    flush();
    isClosed = true;
    over();
    say({ kind: "closed", leader, connection, reason: reasonOf(reason) });
  }

  function taken(): void {
    if (!isClosed) say({ kind: "taken", leader, connection, bytes });
  }

  function flush(): void {
    if (waiting.length === 0 || isClosed) return;
    const frames = waiting;
    waiting = [];
    say({ kind: "frames", leader, connection, frames });
  }

  const wire = connect(meta, {
    /** Frames that come together leave together. */
    received(frame) {
      if (isClosed) return;
      waiting.push(ownFrame(frame));
      if (waiting.length === 1) queueMicrotask(flush);
    },
    drained: taken,
    closed,
  });
  return {
    write(frames) {
      try {
        for (const frame of frames) checkClientFrame(frame, meta.idempotencyKey);
      } catch (cause) {
        wire.end();
        closed(HoldfastError.from(cause));
        return;
      }
      for (const frame of frames) bytes += frameBytes(frame);
      if (wire.write(frames) === 0) taken();
    },
    end: () => wire.end(),
    closed,
  };
}
