/**
 * What the proof is made from: both logs of the stream as they lie on the server's disk, opened with the client's home
 * key, and the files that the tools changed. Nothing here comes from the processes of the show.
 */
import { join } from "node:path";
import { type AgentClientMessage, type AgentServerMessage } from "../../protocol/messages.ts";
import { nodeSealing } from "../../sealing/node.ts";
import type { LogEntry } from "../../server/entries.ts";
import { openSqliteReadOnly } from "../../store/index.ts";
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

export interface Places {
  readonly dataDir: string;
  readonly workspace: string;
  readonly homeKey: Uint8Array;
  readonly now: () => number;
}

export async function readEvidence({ dataDir, workspace, homeKey, now }: Places): Promise<DiskEvidence> {
  const database = await openSqliteReadOnly(existingDatabase(dataDir), { now });
  try {
    const { streams, damage } = await scanStreams(database.log);
    if (damage !== undefined) throw failure(`the database is damaged: ${damage}`);
    const [stream, another] = streams;
    if (stream === undefined || another !== undefined || stream.view.kind !== "live") {
      throw failure(`there should be one stream on the disk, and there are ${streams.length}`);
    }
    const { name, view } = stream;
    const sealing = nodeSealing();
    const sealer = sealing.sealer(sealing.deriveStreamKey(homeKey, name.idempotencyKey));
    const { chunks, events } = openLogs(await scanLogs(database.log, stream.number), name, sealer);
    const { nextSeqno, eventHead } = view.state;
    return {
      idempotencyKey: name.idempotencyKey,
      chunks: chunks.map(({ number, mark, body }) => {
        return { number, mark, message: decodeClient(body) };
      }),
      events: events.map(({ number, mark, body }) => {
        return { number, mark, message: decodeServer(body) };
      }),
      heads: { nextSeqno, eventHead },
      deeds: linesOf(join(workspace, DEEDS_FILE)),
      letter: readFileIfThere(join(workspace, LETTER_FILE)) ?? "",
    };
  } finally {
    await database.close();
  }
}

export function linesOf(path: string): readonly string[] {
  return (readFileIfThere(path) ?? "").split("\n").filter((line) => line !== "");
}
