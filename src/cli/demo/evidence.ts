/**
 * What the proof is made from: both logs of the stream as they lie on the server's disk or in the nodes' database, opened with the client's home
 * key, and the files that the tools changed. Nothing here comes from the processes of the show.
 */
import { join } from "node:path";
import { type AgentClientMessage, type AgentServerMessage } from "../../protocol/messages.ts";
import type { SyncSealer } from "../../sealing/index.ts";
import { nodeSealing } from "../../sealing/node.ts";
import type { LogEntry } from "../../server/entries.ts";
import { StreamLogs } from "../../server/stream-logs.ts";
import { openSqliteReadOnly } from "../../store/index.ts";
import { openPostgresStore } from "../../store/postgres/index.ts";
import { readFileIfThere } from "../../node/data-dir.ts";
import { existingDatabase } from "../database-path.ts";
import { failure } from "../../node/failures.ts";
import { scanLogs, scanStreams } from "../stream-scan.ts";
import { openLogs } from "../timeline.ts";
import { DEEDS_FILE, LETTER_FILE } from "./play.ts";
import { decodeClient, decodeServer } from "../../turn/messages.ts";

export interface Entry<Message> {
  /** Seqno or event id. */
  readonly number: number;
  readonly mark: LogEntry["mark"];
  readonly message: Message;
}

export interface DiskEvidence {
  readonly idempotencyKey: string;
  readonly chunks: readonly Entry<AgentClientMessage>[];
  readonly events: readonly Entry<AgentServerMessage>[];
  /** As the server's own index has them. */
  readonly heads: { readonly nextSeqno: number; readonly eventHead: number };
  /** Lines of the file where commands leave them. */
  readonly deeds: readonly string[];
  readonly letter: string;
}

/** Both logs as they lie there, opened with the key. */
export type Disk = (
  homeKey: Uint8Array,
  idempotencyKey: string,
  now: () => number,
) => Promise<Pick<DiskEvidence, "chunks" | "events" | "heads">>;

/** Of a server with a disk of its own. */
export function diskOfDirectory(dataDir: string): Disk {
  return async (homeKey, idempotencyKey, now) => {
    const database = await openSqliteReadOnly(existingDatabase(dataDir), { now });
    try {
      const { streams, damage } = await scanStreams(database.log);
      if (damage !== undefined) throw failure(`the database is damaged: ${damage}`);
      const [stream, another] = streams;
      if (stream === undefined || another !== undefined || stream.view.kind !== "live") {
        throw failure(`there should be one stream on the disk, and there are ${streams.length}`);
      }
      const { name, view } = stream;
      const { chunks, events } = openLogs(
        await scanLogs(database.log, stream.number),
        name,
        sealerOf(homeKey, idempotencyKey),
      );
      const { nextSeqno, eventHead } = view.state;
      return {
        chunks: chunks.map(({ number, mark, body }) => ({ number, mark, message: decodeClient(body) })),
        events: events.map(({ number, mark, body }) => ({ number, mark, message: decodeServer(body) })),
        heads: { nextSeqno, eventHead },
      };
    } finally {
      await database.close();
    }
  };
}

/** Of nodes that share a PostgreSQL. */
export function diskOfDatabase(url: string, variables: Readonly<Record<string, string | undefined>>): Disk {
  return async (homeKey, idempotencyKey) => {
    const store = await openPostgresStore(url, { variables });
    try {
      const name = { principal: "default", idempotencyKey };
      const found = await store.streams.load(name);
      if (found.kind !== "live") throw failure(`the stream is ${found.kind} in the database`);
      const { nextSeqno, eventHead } = found.state;
      const logs = new StreamLogs(store.streams, name, sealerOf(homeKey, idempotencyKey));
      const chunks: DiskEvidence["chunks"][number][] = [];
      while (chunks.length < nextSeqno)
        for (const { seqno, body, isClose } of await logs.readChunks(chunks.length))
          chunks.push({ number: seqno, mark: isClose ? "close" : "plain", message: decodeClient(body) });
      const events: DiskEvidence["events"][number][] = [];
      while (events.length < eventHead)
        for (const { eventId, body, end } of await logs.readEvents(events.length + 1))
          events.push({ number: eventId, mark: end ?? "plain", message: decodeServer(body) });
      return { chunks, events, heads: { nextSeqno, eventHead } };
    } finally {
      await store.close();
    }
  };
}

function sealerOf(homeKey: Uint8Array, idempotencyKey: string): SyncSealer {
  const sealing = nodeSealing();
  return sealing.sealer(sealing.deriveStreamKey(homeKey, idempotencyKey));
}

export interface Places {
  readonly disk: Disk;
  readonly idempotencyKey: string;
  readonly workspace: string;
  readonly homeKey: Uint8Array;
  readonly now: () => number;
}

export async function readEvidence(places: Places): Promise<DiskEvidence> {
  const { disk, idempotencyKey, workspace, homeKey, now } = places;
  return {
    idempotencyKey,
    ...(await disk(homeKey, idempotencyKey, now)),
    deeds: linesOf(join(workspace, DEEDS_FILE)),
    letter: readFileIfThere(join(workspace, LETTER_FILE)) ?? "",
  };
}

export function linesOf(path: string): readonly string[] {
  return (readFileIfThere(path) ?? "").split("\n").filter((line) => line !== "");
}
