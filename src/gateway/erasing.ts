/**
 * Finds and deletes what the gateway's tables keep of one principal.
 *
 * Names of rows are keyed hashes and tell nothing by themselves. A row is the principal's when its name follows from the principal and from what the row holds, or when it holds a
 * session or a stream of the principal's. So the home key is needed, and no row carries a principal in the open (E4).
 */
import { z } from "zod";
import type { TableWrite } from "../store/table-store.ts";
import { RESPONSES } from "./given-answers.ts";
import { CONVERSATIONS } from "./kept-conversations.ts";
import { KEPT } from "./kept-responses.ts";
import { Names } from "./names.ts";
import { SealedRows, type SealedRowsOptions } from "./sealed-rows.ts";
import { decodeResponse, decodeSession } from "./session-record.ts";
import { INDEX, READERS, SESSIONS } from "./session-store.ts";

export interface Erasing extends Pick<SealedRowsOptions, "tables" | "sealer"> {
  /** As the gateway has it. */
  readonly secret: Uint8Array;
  readonly principal: string;
  /** The principal's streams, those that are gone too. */
  readonly streamIds: ReadonlySet<string>;
  /** Counts only. */
  readonly isDryRun: boolean;
}

interface Erased {
  readonly rows: number;
  /** The names of the rows by which retries find answers. */
  readonly answers: readonly string[];
}

const KEPT_ROW = z.object({ answer: z.object({ responseId: z.string() }) });
const CONVERSATION_ROW = z.object({ id: z.string() });
const BATCH_MAX = 256;
/** Nothing of this waits. */
const NO_TIMERS = { after: () => () => undefined };

export async function eraseRows(erasing: Erasing): Promise<Erased> {
  const { principal, streamIds, secret } = erasing;
  const names = new Names(secret);
  // A row that cannot be read may be another principal's: it stays.
  const rows = new SealedRows({ ...erasing, onDamaged: () => undefined, environment: NO_TIMERS });
  const found: TableWrite[] = [];
  const take = async <Row>(
    table: string,
    decode: (bytes: Uint8Array) => Row,
    isOwn: (row: Row, key: string) => boolean,
  ): Promise<void> => {
    for await (const stored of rows.list(table)) {
      const row = await rows.open(table, stored, decode);
      if (row !== undefined && isOwn(row, stored.key)) found.push({ kind: "delete", table, key: stored.key });
    }
  };
  const sessions = new Set(streamIds);
  await take(SESSIONS, decodeSession, (session) => {
    const isOwn = session.principal === principal;
    if (isOwn) sessions.add(session.answer.streamId);
    return isOwn;
  });
  await take(INDEX, textOf, (streamId) => sessions.has(streamId));
  await take(RESPONSES, decodeResponse, ({ answer }) => sessions.has(answer.streamId));
  await take(
    KEPT,
    jsonOf(KEPT_ROW),
    ({ answer }, key) => key === names.row("response", principal, answer.responseId),
  );
  await take(
    CONVERSATIONS,
    jsonOf(CONVERSATION_ROW),
    ({ id }, key) => key === names.row("kept conversation", principal, id),
  );
  const readers = new Set([...streamIds].map((streamId) => names.row("readers", principal, streamId)));
  await take(READERS, textOf, (_, key) => readers.has(key));
  // Their index is found by sessions, so these go last: a crash between two batches leaves nothing that cannot be found.
  found.sort((a, b) => Number(a.table === SESSIONS) - Number(b.table === SESSIONS));
  if (!erasing.isDryRun)
    for (let at = 0; at < found.length; at += BATCH_MAX) await rows.batch(found.slice(at, at + BATCH_MAX));
  const answers = found.filter(({ table }) => table === RESPONSES).map(({ key }) => key);
  return { rows: found.length, answers };
}

function textOf(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

function jsonOf<Schema extends z.ZodType>(schema: Schema): (bytes: Uint8Array) => z.infer<Schema> {
  return (bytes) => schema.parse(JSON.parse(textOf(bytes)));
}
