/**
 * The servers of the show: one with its own disk, or several nodes that share a PostgreSQL. The show kills the one that runs the turn, and starts it again.
 */
import { openPostgresStore } from "../../store/postgres/index.ts";
import { failure } from "../../node/failures.ts";
import { type Actor, type ActorOptions, startServer } from "./actors.ts";
import { openCluster, type SharedDatabase } from "./cluster.ts";
import { type Disk, diskOfDatabase, diskOfDirectory } from "./evidence.ts";
import { type Network, openNetwork } from "./network.ts";

export interface Servers {
  /** What one of them is called. */
  readonly noun: "server" | "node";
  readonly network: Network;
  /** Starts those that do not run, and tells of each. */
  begin(): Promise<readonly string[]>;
  /** The one that runs the turn. */
  victim(stream: string): Promise<Victim>;
  /** What else dies when everything does; tells of it when it is dead, and again when it is back. */
  readonly disaster: Disaster | undefined;
  /** Where the proof finds the logs. */
  readonly disk: Disk;
  dismiss(): Promise<void>;
  abandon(): Promise<void>;
}

interface Victim {
  readonly title: string;
  readonly kill: () => Promise<void>;
}

interface Disaster {
  readonly title: string;
  strike(): Promise<void>;
  mend(): Promise<string>;
}

/** Should the show itself be killed, servers are left alone, and end by themselves. */
const LEFT_ALONE = ["--exit-when-idle", "60"];

export async function oneServer(dataDir: string, options: ActorOptions): Promise<Servers> {
  const network = await openNetwork();
  let server: Actor | undefined;
  return {
    noun: "server",
    network,
    async begin() {
      const isFirst = server === undefined;
      const { actor, port } = await startServer({ ...options, dataDir, flags: LEFT_ALONE });
      server = actor;
      network.targetPorts = [port];
      return [
        isFirst ? `process ${actor.pid}, holdfast serve` : `process ${actor.pid} starts on the same disk`,
      ];
    },
    async victim() {
      return { title: `server ${server?.pid ?? 0}`, kill: async () => server?.kill() };
    },
    disaster: undefined,
    disk: diskOfDirectory(dataDir),
    async dismiss() {
      await server?.dismiss();
      await network.close();
    },
    async abandon() {
      await server?.kill();
      await network.close();
    },
  };
}

interface NodesOptions extends ActorOptions {
  readonly directory: string;
  readonly count: number;
  readonly database: SharedDatabase;
}

/** Whose streams these are: the only principal of the show. */
const PRINCIPAL = "default";

export async function manyNodes({ database, onFailure, ...options }: NodesOptions): Promise<Servers> {
  const { url, own } = database;
  const { env } = options;
  const onEnd = (_: object, reason: Error): void => onFailure(reason);
  const cluster = await openCluster({ ...options, store: url, flags: LEFT_ALONE, onEnd });
  const down = new Set(cluster.nodes);
  return {
    noun: "node",
    network: cluster.network,
    async begin() {
      const starting = [...down];
      const isFirst = starting.length === cluster.nodes.length;
      down.clear();
      await Promise.all(starting.map((node) => node.start()));
      return starting.map(({ name, pid }) => `${name}, process ${pid}${isFirst ? "" : ", starts again"}`);
    },
    async victim(stream) {
      const hostId = await hostOf(url, env, stream);
      const node = cluster.nodes.find((each) => each.hostId === hostId);
      if (node === undefined) throw failure("no node runs the turn");
      const kill = async (): Promise<void> => {
        down.add(node);
        await node.kill();
      };
      return { title: `${node.name}, process ${node.pid}, which runs the turn`, kill };
    },
    disaster:
      own === undefined
        ? undefined
        : {
            title: "PostgreSQL with all its processes",
            strike: () => own.kill(),
            async mend() {
              await own.start();
              return "PostgreSQL starts on the same disk";
            },
          },
    disk: diskOfDatabase(url, env),
    dismiss: () => cluster.dismiss(),
    abandon: () => cluster.abandon(),
  };
}

/** By what the database says. */
async function hostOf(
  url: string,
  variables: ActorOptions["env"],
  stream: string,
): Promise<string | undefined> {
  const store = await openPostgresStore(url, { variables });
  try {
    const [seen] = await store.streams.look([{ principal: PRINCIPAL, idempotencyKey: stream }]);
    return seen?.kind === "live" ? seen.hostId : undefined;
  } finally {
    await store.close();
  }
}
