/**
 * Several nodes of production parts over one store, and clients that reach the node that they are told to.
 *
 * A node can be killed: from then on it says nothing, and what it asks of the store does not arrive; its lease runs on, as a dead machine's does.
 */
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { Client, type ClientOptions } from "../../src/client/index.ts";
import { retry } from "../../src/core/index.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { type Application, createServer, type StandingServer } from "../../src/server/index.ts";
import type { Letters, StreamStore } from "../../src/store/index.ts";
import { type Connect, memoryTransport } from "../../src/transport/index.ts";

export const HOME_KEY = new Uint8Array(32).fill(7);
export const PRINCIPAL = "alice";

const SOON = { ...retry.DEFAULTS, baseMs: 2, capMs: 20, budget: { burst: 10_000, refillMs: 1 } };

export interface SharedParts {
  readonly store: StreamStore;
  readonly letters: Letters;
}

export interface TestNode {
  readonly name: string;
  readonly server: StandingServer;
  readonly connect: Connect;
  cut(): void;
  kill(): void;
  /** From now on nothing that it asks of the store arrives, until it is woken. What it had asked before has its answer when this resolves. */
  sleep(): Promise<() => void>;
}

export class NodesRig {
  readonly bugs: unknown[] = [];
  readonly #clients: Client[] = [];
  readonly #nodes: TestNode[] = [];

  constructor(t: TestContext) {
    t.after(async () => {
      await Promise.all(this.#clients.map((client) => client.close()));
      await Promise.all(this.#nodes.map(({ server }) => server.shutdown()));
      assert.deepEqual(this.bugs, []);
    });
  }

  node(name: string, shared: SharedParts, application: Application): TestNode {
    let isDead = false;
    let asleep: Promise<void> | undefined;
    const underWay = new Set<Promise<unknown>>();
    const asked = (answer: unknown): unknown => {
      if (!(answer instanceof Promise)) return answer;
      underWay.add(answer);
      const settled = (): void => void underWay.delete(answer);
      answer.then(settled, settled);
      return answer;
    };
    const alive = <Parts extends object>(parts: Parts): Parts =>
      new Proxy(parts, {
        get(target, property) {
          const value: unknown = Reflect.get(target, property, target);
          if (typeof value !== "function") return value;
          return (...args: unknown[]): unknown => {
            if (property === "listen") return Reflect.apply(value, target, args);
            if (isDead) return new Promise(() => undefined);
            const act = (): unknown => asked(Reflect.apply(value, target, args));
            return asleep === undefined ? act() : asleep.then(act);
          };
        },
      });
    const server = createServer({
      store: alive(shared.store),
      letters: alive(shared.letters),
      sealing: nodeSealing(),
      application,
      hostId: name,
      host: { heartbeatIntervalMs: 50 },
      onBug: (bug) => this.bugs.push(bug),
    });
    const transport = memoryTransport(server.accept, { principalOf: () => PRINCIPAL });
    const cut = (): void => {
      for (const connection of transport.connections) connection.cut();
    };
    const node: TestNode = {
      name,
      server,
      cut,
      connect: (meta, handler) => transport.connect(meta, handler),
      sleep: async () => {
        const { promise, resolve } = Promise.withResolvers<void>();
        asleep = promise;
        await Promise.allSettled(underWay);
        return () => {
          asleep = undefined;
          resolve();
        };
      },
      kill: () => {
        isDead = true;
        cut();
        this.#nodes.splice(this.#nodes.indexOf(node), 1);
        // Its timers would go on; what it still says reaches nobody.
        server.loseStore();
      },
    };
    this.#nodes.push(node);
    return node;
  }

  /** Connects to whichever node `where` names at that moment. */
  client(where: () => TestNode, options: Partial<ClientOptions> = {}): Client {
    const client = new Client({
      connect: (meta, handler) => where().connect(meta, handler),
      sealing: nodeSealing(),
      homeKey: HOME_KEY,
      stream: { retry: SOON },
      onBug: (bug) => this.bugs.push(bug),
      ...options,
    });
    this.#clients.push(client);
    return client;
  }
}
