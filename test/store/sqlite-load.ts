/**
 * A process that writes streams, rows and blobs as fast as it can and says what was acknowledged, until it
 * is killed: `node sqlite-load.ts <folder>`. Each line is "s <stream> <event head>", "t <key>" or "failed <message>".
 */
import { openSqliteStore } from "../../src/store/index.ts";
import type { SqliteStore } from "../../src/store/index.ts";
import { created, growth, streamName } from "../conformance/stream-fixtures.ts";

const STREAMS = 8;
/** So that the load is not over before the write-ahead log has been moved a few times. */
const PADDING_BYTES = 2_000;

/** What is still in a buffer when the process dies was never said. */
function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

async function growForEver({ streams }: SqliteStore, number: number): Promise<never> {
  const name = streamName(`s${number}`);
  const found = await streams.load(name);
  let state = found.kind === "live" ? found.state : await created(streams, name);
  for (;;) {
    const commit = growth(name, state, { events: 3, chunks: 1, label: `event ${"x".repeat(PADDING_BYTES)}` });
    const result = await streams.commit(commit);
    if (result.kind !== "committed") throw new Error("nobody else writes here");
    state = result.state;
    say(`s ${number} ${state.eventHead}`);
  }
}

async function putForEver({ tables }: SqliteStore): Promise<never> {
  for (let at = 0; ; at++) {
    await tables.put({ table: "t", key: String(at) }, new Uint8Array(1_000).fill(at % 256));
    say(`t ${at}`);
  }
}

const [folder = "."] = process.argv.slice(2);
try {
  const store = await openSqliteStore(folder, { now: Date.now });
  const work = Array.from({ length: STREAMS }, (_, number) => growForEver(store, number));
  await Promise.all([...work, putForEver(store)]);
} catch (error) {
  say(`failed ${error instanceof Error ? error.message : String(error)}`);
}
