/**
 * `npm run nodes`: a storm of kills and stops of three nodes and of their PostgreSQL, and then nodes that are drained and a network that is disturbed, as often as you like.
 */
import { parse, whole } from "../../scripts/arguments.ts";
import { startPostgres } from "../store/postgres/server.ts";
import { runCampaign } from "./campaign.ts";
import { runStorm } from "./storm.ts";

const HELP = `npm run nodes -- [options]
  --kills N           nodes killed while they run a stream (default 60)
  --sleeps N          nodes stopped for longer than their lease (default 20)
  --drains N          nodes stopped in order and started again (default 10)
  --database-kills N  kills of PostgreSQL with all its processes (default 10)
  --cuts N            connections between a node and PostgreSQL broken, all at once (default 10)
  --delays N          what passes between a node and PostgreSQL is late (default 10)
  --half-opens N      nothing passes between them for longer than the lease, and nothing breaks (default 10)
  --help              this text`;

const values = parse(
  {
    kills: { type: "string", default: "60" },
    sleeps: { type: "string", default: "20" },
    drains: { type: "string", default: "10" },
    "database-kills": { type: "string", default: "10" },
    cuts: { type: "string", default: "10" },
    delays: { type: "string", default: "10" },
    "half-opens": { type: "string", default: "10" },
    help: { type: "boolean", default: false },
  },
  HELP,
);

if (values.help) {
  process.stdout.write(`${HELP}\n`);
} else {
  const count = (
    name: "kills" | "sleeps" | "drains" | "database-kills" | "cuts" | "delays" | "half-opens",
  ): number => whole(values[name], name, 0, HELP);
  const counts = {
    kills: count("kills"),
    sleeps: count("sleeps"),
    drains: count("drains"),
    databaseKills: count("database-kills"),
    cuts: count("cuts"),
    delays: count("delays"),
    halfOpens: count("half-opens"),
  };
  const ends: (() => void | Promise<void>)[] = [];
  const postgres = await startPostgres();
  try {
    const t = { after: (end: () => void | Promise<void>) => void ends.unshift(end) };
    const say = (line: string): void => void process.stderr.write(`${line}\n`);
    const reports = [await runStorm(t, postgres, counts, say), await runCampaign(t, postgres, counts, say)];
    process.stdout.write(`${JSON.stringify(reports, undefined, 2)}\nno violation\n`);
  } finally {
    for (const end of ends) await end();
    await postgres.close();
  }
}
