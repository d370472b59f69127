/**
 * The tab that holds the connection of its origin: carries the other tabs' connections beside its own.
 *
 * To the transport below, a connection of another tab is one like any other. A tab that goes away
 * says nothing; but its own lock becomes free, and that ends its connections here.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import { decodeClientFrame, encodeServerFrame } from "../../protocol/frame-codec.ts";
import type { ClientFrame, ServerFrame } from "../../protocol/frames.ts";
import type { ClientMeta, Connect, Handler, Wire } from "../../transport/transport.ts";
import type { Channel, Locks, Platform } from "./platform.ts";
import { parseToLeader, reasonOf, type ToLeader, type ToTab } from "./tab-messages.ts";

/** How the tabs of one origin that talk to one server find each other. */
export interface TabNames {
  /** The lock of the leader, and the channel to it. */
  readonly leader: string;
  /** The channel to all tabs. */
  readonly all: string;
  /** The lock that a tab holds for its life, and the channel to it. */
  tab(tab: string): string;
}

export interface LeadingTabOptions {
  readonly id: string;
  readonly names: TabNames;
  readonly connect: Connect;
  readonly locks: Locks;
  readonly openChannel: Platform["openChannel"];
}

export class LeadingTab {
  readonly #options: LeadingTabOptions;
  readonly #inbox: Channel;
  readonly #tabs = new Map<string, FollowingTab>();

  constructor(options: LeadingTabOptions) {
    this.#options = options;
    this.#inbox = options.openChannel(options.names.leader, (data) => {
      const message = parseToLeader(data);
      if (message !== undefined) this.#received(message);
    });
    const everybody = options.openChannel(options.names.all);
    everybody.post({ kind: "here", leader: options.id } satisfies ToTab);
    everybody.close();
  }

  /** Ends everybody's connections: they come back through the next leader. */
  close(): void {
    this.#inbox.close();
    const over = new HoldfastError("connection_lost", "the tab that held the connection was closed");
    for (const tab of this.#tabs.values()) tab.close(over);
    this.#tabs.clear();
  }

  #received(message: ToLeader): void {
    const tab = this.#tabs.get(message.tab) ?? this.#meet(message.tab);
    switch (message.kind) {
      case "ping":
        return tab.say({ kind: "here", leader: this.#options.id });
      case "open":
        return tab.open(message.connection, message.meta);
      case "frames":
        return tab.write(message.connection, message.frames);
      case "end":
        return tab.end(message.connection);
    }
  }

  #meet(id: string): FollowingTab {
    const { names, locks, openChannel, connect } = this.#options;
    const gone = new AbortController();
    const tab = new FollowingTab(this.#options.id, openChannel(names.tab(id)), connect, gone);
    this.#tabs.set(id, tab);
    const held = (): undefined => {
      this.#tabs.delete(id);
      tab.close(new HoldfastError("connection_lost", "the tab is gone"));
    };
    // Rejects only when this tab stops waiting for it.
    locks.request(names.tab(id), { signal: gone.signal }, held).catch(() => undefined);
    return tab;
  }
}

/** One of the other tabs, as the leader sees it. */
class FollowingTab {
  readonly #leader: string;
  readonly #channel: Channel;
  readonly #connect: Connect;
  readonly #gone: AbortController;
  readonly #connections = new Map<number, Carried>();

  constructor(leader: string, channel: Channel, connect: Connect, gone: AbortController) {
    this.#leader = leader;
    this.#channel = channel;
    this.#connect = connect;
    this.#gone = gone;
  }

  say(message: ToTab): void {
    this.#channel.post(message);
  }

  open(connection: number, meta: ClientMeta): void {
    this.say({ kind: "here", leader: this.#leader });
    const carried = new Carried(this.#leader, connection, (message) => this.say(message));
    carried.onClosed = () => this.#connections.delete(connection);
    this.#connections.set(connection, carried);
    carried.wire = this.#connect(meta, carried);
  }

  write(connection: number, frames: readonly Uint8Array[]): void {
    const carried = this.#connections.get(connection);
    if (carried !== undefined) return carried.write(frames);
    // Opened through a leader that is gone.
    const unknown = new HoldfastError("connection_lost", "the tab that held the connection is gone");
    this.say({ kind: "closed", leader: this.#leader, connection, reason: reasonOf(unknown) });
  }

  end(connection: number): void {
    this.#connections.get(connection)?.wire?.end();
  }

  close(reason: HoldfastError): void {
    for (const carried of this.#connections.values()) {
      carried.wire?.end();
      carried.closed(reason);
    }
    this.#gone.abort();
    this.#channel.close();
  }
}

/** A connection of another tab: hears the transport for it. */
class Carried implements Handler<ServerFrame> {
  wire: Wire<ClientFrame> | undefined;
  onClosed: () => void = () => undefined;
  readonly #leader: string;
  readonly #connection: number;
  readonly #say: (message: ToTab) => void;
  #received: Uint8Array[] = [];
  #bytes = 0;
  #isClosed = false;

  constructor(leader: string, connection: number, say: (message: ToTab) => void) {
    this.#leader = leader;
    this.#connection = connection;
    this.#say = say;
  }

  write(encoded: readonly Uint8Array[]): void {
    const frames: ClientFrame[] = [];
    try {
      for (const bytes of encoded) frames.push(decodeClientFrame(bytes).frame);
    } catch (cause) {
      this.wire?.end();
      this.closed(HoldfastError.from(cause));
      return;
    }
    for (const bytes of encoded) this.#bytes += bytes.length;
    if (this.wire?.write(frames) === 0) this.#taken();
  }

  /** Frames that come together leave together. */
  received(frame: ServerFrame): void {
    if (this.#isClosed) return;
    this.#received.push(encodeServerFrame(frame));
    if (this.#received.length === 1) queueMicrotask(() => this.#flush());
  }

  drained(): void {
    this.#taken();
  }

  closed(reason: HoldfastError | undefined): void {
    if (this.#isClosed) return;
    this.#flush();
    this.#isClosed = true;
    this.onClosed();
    const [leader, connection] = [this.#leader, this.#connection];
    this.#say({ kind: "closed", leader, connection, reason: reasonOf(reason) });
  }

  #taken(): void {
    if (this.#isClosed) return;
    this.#say({ kind: "taken", leader: this.#leader, connection: this.#connection, bytes: this.#bytes });
  }

  #flush(): void {
    if (this.#received.length === 0 || this.#isClosed) return;
    const frames = this.#received;
    this.#received = [];
    this.#say({ kind: "frames", leader: this.#leader, connection: this.#connection, frames });
  }
}
