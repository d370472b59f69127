/**
 * One connection for all tabs of an origin.
 *
 * Browsers open at most six HTTP/1.1 connections to an origin, all tabs together. So one tab leads,
 * by a Web Lock: it holds the one call that receives, and sends for all tabs. The other tabs reach it
 * by BroadcastChannel. When it is closed or crashes, the lock passes on and all connections it carried
 * are lost, which to a stream is a broken connection like any other: it attaches again, through the
 * next leader.
 *
 * A leader that does not answer (its page is frozen, or stuck in a loop) still has the lock. Tabs that
 * hear nothing from it connect by themselves instead of hanging, and use it again once it speaks.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import type { ClientFrame, ServerFrame } from "../../protocol/frames.ts";
import { type Environment, systemEnvironment } from "../../transport/environment.ts";
import type { ClientMeta, Connect, Handler, Wire } from "../../transport/transport.ts";
import { type LeadingTab, leadingTab, type TabNames } from "./leading-tab.ts";
import { type PendingConnection, pendingConnection } from "./pending-connection.ts";
import type { Channel, Platform } from "./platform.ts";
import { type RelayedConnection, relayedConnection } from "./relayed-connection.ts";
import { CHANNEL_VERSION, isToTab, type ToLeader, type ToTab } from "./tab-messages.ts";

export interface SharedConnectionOptions {
  /** The server: tabs share a connection only to the same one. */
  readonly url: string;
  /** How this tab connects when it leads, or when the leader does not answer. */
  readonly connect: Connect;
  readonly platform: Pick<Platform, "locks" | "openChannel">;
  readonly environment?: Environment;
  /** How often a leader is asked for a sign of life; after two without any it is not waited for. Default 1 s. */
  readonly pingIntervalMs?: number;
}

const PING_INTERVAL_MS = 1_000;
const MISSED_MAX = 2;

/** Who carries this tab's connections. */
type Leadership =
  /** Not known yet: connections wait for a moment. */
  | { readonly kind: "unknown" }
  | { readonly kind: "other"; readonly leader: string }
  /** Another tab leads and does not answer. */
  | { readonly kind: "silent" }
  | { readonly kind: "own"; readonly leading: LeadingTab };

export class SharedConnection {
  readonly #options: SharedConnectionOptions;
  readonly #environment: Environment;
  readonly #id: string;
  readonly #names: TabNames;
  readonly #channels: readonly Channel[];
  readonly #toLeader: Channel;
  readonly #closed = new AbortController();
  readonly #pending = new Set<PendingConnection>();
  readonly #relayed = new Map<number, RelayedConnection>();
  #leadership: Leadership = { kind: "unknown" };
  #connections = 0;
  #missed = 0;
  #cancelPing: (() => void) | undefined;

  constructor(options: SharedConnectionOptions) {
    this.#options = options;
    this.#environment = options.environment ?? systemEnvironment();
    this.#id = crypto.randomUUID();
    this.#names = namesOf(options.url);
    const { openChannel } = options.platform;
    this.#toLeader = openChannel(this.#names.leader);
    const listener = (data: unknown): void => {
      if (isToTab(data)) this.#heard(data);
    };
    const inboxes = [this.#names.all, this.#names.tab(this.#id)];
    this.#channels = [this.#toLeader, ...inboxes.map((name) => openChannel(name, listener))];
    // The leader learns from this lock that a tab is gone, so it is held before the leader hears of the tab.
    this.#hold(this.#names.tab(this.#id), () => {
      this.#say({ kind: "ping", tab: this.#id });
      this.#hold(this.#names.leader, () => this.#lead());
    });
  }

  readonly connect: Connect = (meta, handler) => {
    switch (this.#leadership.kind) {
      case "own":
        return this.#options.connect(meta, handler);
      case "silent":
        this.#say({ kind: "ping", tab: this.#id });
        return this.#options.connect(meta, handler);
      case "other":
        return this.#relay(meta, handler);
      case "unknown": {
        const pending = pendingConnection(meta, handler);
        this.#pending.add(pending);
        this.#keepPinging();
        return pending;
      }
    }
  };

  /** Whether this tab holds the connection of its origin. */
  get isLeading(): boolean {
    return this.#leadership.kind === "own";
  }

  /** Gives leadership away and ends what is carried; closing this tab's own transport is the caller's. */
  close(): void {
    if (this.#closed.signal.aborted) return;
    const over = new HoldfastError("connection_lost", "this client was closed");
    this.#loseRelayed(over);
    this.#closed.abort();
    this.#cancelPing?.();
    if (this.#leadership.kind === "own") this.#leadership.leading.close();
    for (const pending of this.#pending) pending.close(over);
    this.#pending.clear();
    for (const channel of this.#channels) channel.close();
  }

  /** Holds a lock from whenever it is free until this is closed, or the page is gone. */
  #hold(name: string, held: () => void): void {
    const { signal } = this.#closed;
    const untilClosed = (): Promise<void> | undefined => {
      if (signal.aborted) return undefined;
      held();
      return new Promise((resolve) => signal.addEventListener("abort", () => resolve()));
    };
    // Rejects when this is closed before the lock was free.
    this.#options.platform.locks.request(name, { signal }, untilClosed).catch(() => undefined);
  }

  #lead(): void {
    this.#loseRelayed(new HoldfastError("connection_lost", "the tab that held the connection is gone"));
    const { connect, platform } = this.#options;
    const leading = leadingTab({ id: this.#id, names: this.#names, connect, ...platform });
    this.#leadership = { kind: "own", leading };
    this.#bindPending(connect);
  }

  #heard(message: ToTab): void {
    if (this.#leadership.kind === "own" || this.#closed.signal.aborted) return;
    const isLeaders = this.#leadership.kind === "other" && this.#leadership.leader === message.leader;
    if (isLeaders) this.#missed = 0;
    if (message.kind === "here") {
      if (!isLeaders) this.#follow(message.leader);
    } else if (isLeaders) {
      this.#relayed.get(message.connection)?.heard(message);
    }
  }

  #follow(leader: string): void {
    this.#missed = 0;
    this.#loseRelayed(new HoldfastError("connection_lost", "another tab holds the connection now"));
    this.#leadership = { kind: "other", leader };
    this.#bindPending((meta, handler) => this.#relay(meta, handler));
  }

  #relay(meta: ClientMeta, handler: Handler<ServerFrame>): Wire<ClientFrame> {
    const connection = ++this.#connections;
    const relayed = relayedConnection({
      tab: this.#id,
      connection,
      meta,
      handler,
      say: (message) => this.#say(message),
      onClosed: () => this.#relayed.delete(connection),
    });
    this.#relayed.set(connection, relayed);
    this.#keepPinging();
    return relayed;
  }

  #bindPending(connect: Connect): void {
    const pending = [...this.#pending];
    this.#pending.clear();
    for (const one of pending) one.bind(connect);
  }

  #loseRelayed(reason: HoldfastError): void {
    const lost = Array.from(this.#relayed.values());
    for (const relayed of lost) {
      // A leader that was only asleep must not carry it on.
      relayed.end();
      relayed.close(reason);
    }
  }

  /** While anything depends on a leader. Counted, not timed: a hidden tab's timers are late by minutes. */
  #keepPinging(): void {
    if (this.#cancelPing !== undefined || this.#closed.signal.aborted) return;
    this.#cancelPing = this.#environment.after(this.#options.pingIntervalMs ?? PING_INTERVAL_MS, () => {
      this.#cancelPing = undefined;
      if (this.#relayed.size === 0 && this.#pending.size === 0) return;
      if (++this.#missed > MISSED_MAX) this.#giveUpOnLeader();
      this.#say({ kind: "ping", tab: this.#id });
      this.#keepPinging();
    });
  }

  #giveUpOnLeader(): void {
    if (this.#leadership.kind === "own") return;
    this.#leadership = { kind: "silent" };
    this.#missed = 0;
    this.#loseRelayed(
      new HoldfastError("connection_lost", "the tab that holds the connection does not answer"),
    );
    this.#bindPending(this.#options.connect);
  }

  #say(message: ToLeader): void {
    if (!this.#closed.signal.aborted) this.#toLeader.post(message);
  }
}

function namesOf(url: string): TabNames {
  const base = `holdfast/${CHANNEL_VERSION}/${url}`;
  return { leader: `${base}/leader`, all: `${base}/all`, tab: (tab) => `${base}/tab/${tab}` };
}
