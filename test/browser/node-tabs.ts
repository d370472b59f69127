/**
 * Tabs without a browser: Node has Web Locks and BroadcastChannel too. Everything that tabs do to each
 * other can be shown here with the transport in memory, and quickly; the real browser comes on top.
 */
import { BroadcastChannel } from "node:worker_threads";
import { setTimeout as sleep } from "node:timers/promises";
import { SharedConnection } from "../../src/client/browser/shared-connection.ts";
import type { Locks, Platform } from "../../src/client/browser/platform.ts";
import type { Connect } from "../../src/transport/index.ts";

/** Node's types do not have it yet. */
declare const navigator: { readonly locks: Locks };

/** Turns without a message after which nothing is under way: a lock takes a few. */
const QUIET_TURNS = 10;

interface Listening {
  readonly name: string;
}

/** The tabs of one browser. */
export class NodeTabs {
  readonly url: string;
  readonly #listening = new Set<Listening>();
  readonly #tabs = new Set<NodeTab>();
  #underWay = 0;

  constructor(url: string) {
    this.url = url;
  }

  open(connect: Connect, pingIntervalMs?: number): NodeTab {
    const tab = new NodeTab(this, connect, pingIntervalMs);
    this.#tabs.add(tab);
    return tab;
  }

  close(): void {
    for (const tab of this.#tabs) tab.close();
  }

  /** Until no message has been under way for some turns. */
  async settle(): Promise<void> {
    for (let quiet = 0; quiet < QUIET_TURNS; quiet++) {
      if (this.#underWay > 0) quiet = 0;
      await sleep(1);
    }
  }

  platform(tab: NodeTab): Pick<Platform, "locks" | "openChannel"> {
    const openChannel: Platform["openChannel"] = (name, listener) => {
      const channel = new BroadcastChannel(name);
      const listening = { name };
      if (listener !== undefined) {
        this.#listening.add(listening);
        channel.addEventListener("message", (event: Event) => {
          this.#underWay--;
          if (!tab.isFrozen) listener(Reflect.get(event, "data"));
        });
      }
      return {
        post: (message) => {
          if (tab.isFrozen) return;
          for (const other of this.#listening)
            if (other.name === name && other !== listening) this.#underWay++;
          // oxlint-disable-next-line unicorn/require-post-message-target-origin -- it is no window
          channel.postMessage(message);
        },
        close: () => {
          this.#listening.delete(listening);
          channel.close();
        },
      };
    };
    return { locks: navigator.locks, openChannel };
  }
}

export class NodeTab {
  readonly shared: SharedConnection;
  /** A frozen tab hears and says nothing, and keeps its locks. */
  isFrozen = false;

  constructor(tabs: NodeTabs, connect: Connect, pingIntervalMs: number | undefined) {
    const options = { url: tabs.url, connect, platform: tabs.platform(this) };
    this.shared = new SharedConnection(
      pingIntervalMs === undefined ? options : { ...options, pingIntervalMs },
    );
  }

  get connect(): Connect {
    return this.shared.connect;
  }

  close(): void {
    this.shared.close();
  }
}
