/**
 * The statements by which a group commits to streams that are there: one for all of them, which compares, moves the heads and stores what is new in the logs.
 */
import type { StateChange } from "../../core/stream-state.ts";
import { isNoChange } from "../group.ts";
import type { Commit } from "../stream-store.ts";
import type { Statement } from "./driver.ts";
import { type Chain, shapeOf } from "./plan.ts";
import { IDLE_SLOT_MS } from "./schema.ts";
import { CHANGING_COLUMNS, LOG_NUMBER, packedMacs, STREAM_COLUMNS, writersText } from "./stream-rows.ts";
import { bigints, bodies, jsons } from "./wire-arrays.ts";

/** Locks the rows that will be changed, and tells how they are. */
export function lockStreams(ids: readonly number[]): Statement {
  return {
    name: "holdfast-lock",
    text: `SELECT s.* FROM unnest($1::bigint[]) AS i(id)
      CROSS JOIN LATERAL (SELECT ${STREAM_COLUMNS} FROM holdfast.streams s WHERE s.id = i.id FOR UPDATE) s`,
    values: [bigints(ids)],
  };
}

/** The rows as they are. */
export function readStreams(ids: readonly number[]): Statement {
  return {
    name: "holdfast-read",
    text: `SELECT ${STREAM_COLUMNS} FROM unnest($1::bigint[]) AS i(id) JOIN holdfast.streams s ON s.id = i.id`,
    values: [bigints(ids)],
  };
}

/**
 * Rows are found, and so locked, one behind the other in the order of the chains. What a commit rarely changes travels as one column; what a chain of one commit brings for the logs is
 * stored by the same statement, so that no row has to be found twice.
 */
export function commitStreams(store: number, chains: readonly Chain[]): Statement {
  const sound = chains.flatMap((chain) => {
    const shape = shapeOf(chain);
    return shape.isSound ? [{ ...shape, id: chain[0].place.id, ...aloneIn(chain) }] : [];
  });
  return {
    name: "holdfast-commit",
    text: `WITH done AS (UPDATE holdfast.streams s SET
        activity_ms = greatest(s.activity_ms, ${NOW}),
        idle_slot = greatest(s.activity_ms, ${NOW}) / ${IDLE_SLOT_MS},
        lease_until_ms = greatest(s.lease_until_ms, ${NOW} + s.lease_ms),
        next_seqno = i.next_after, event_head = i.head_after,
        is_closed = s.is_closed OR coalesce(i.change ? 'closed', false), is_aborted = s.is_aborted OR coalesce(i.change ? 'aborted', false),
        end_reason = coalesce(s.end_reason, i.change->>'end'),
        event_floor = coalesce((i.change->>'eventFloor')::bigint, s.event_floor),
        writers = coalesce(i.change->>'writers', s.writers),
        writer_count = coalesce((i.change->>'writerCount')::bigint, s.writer_count),
        writer_epoch = coalesce((i.change->>'writerEpoch')::bigint, s.writer_epoch)
      FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::jsonb[], $9::bytea[], $10::bytea[], $11::bytea[])
        AS i(id, host_epoch, next_seqno, event_head, next_after, head_after, change, events, chunks, macs)
      WHERE s.id = i.id
        AND s.host_epoch = i.host_epoch AND s.next_seqno = i.next_seqno AND s.event_head = i.event_head
        AND (i.head_after = i.event_head OR s.end_reason IS NULL)
        AND (i.next_after = i.next_seqno OR NOT s.is_closed)
        AND (i.change IS NULL OR (
          coalesce((i.change->>'eventFloor')::bigint BETWEEN s.event_floor AND i.head_after + 1, true)
          AND coalesce((i.change->>'writerEpoch')::bigint >= s.writer_epoch, true)
          AND coalesce((i.change->>'writerCount')::bigint >= s.writer_count, true)))
      RETURNING ${CHANGING_COLUMNS}, s.period, s.next_seqno, s.event_head,
        i.next_seqno AS seqno_before, i.event_head AS head_before, i.events, i.chunks, i.macs
      ), stored AS (INSERT INTO holdfast.log (period, stream, log, first, count, sealed, macs)
        SELECT period, id, ${LOG_NUMBER.events}, head_before + 1, event_head - head_before, events, NULL FROM done WHERE events IS NOT NULL
        UNION ALL
        SELECT period, id, ${LOG_NUMBER.chunks}, seqno_before, next_seqno - seqno_before, chunks, macs FROM done WHERE chunks IS NOT NULL)
      SELECT ${CHANGING_COLUMNS} FROM done s`,
    values: [
      store,
      bigints(sound.map(({ id }) => id)),
      bigints(sound.map(({ expected }) => expected.hostEpoch)),
      bigints(sound.map(({ expected }) => expected.nextSeqno)),
      bigints(sound.map(({ expected }) => expected.eventHead)),
      bigints(sound.map(({ after }) => after.nextSeqno)),
      bigints(sound.map(({ after }) => after.eventHead)),
      jsons(sound.map(({ change }) => (isNoChange(change) ? undefined : changeShown(change)))),
      bodies(sound.map(({ events }) => events?.sealed)),
      bodies(sound.map(({ chunks }) => chunks?.sealed)),
      bodies(sound.map(({ chunks }) => chunks && packedMacs(chunks.macs))),
    ],
  };
}

/** The clock of the group. */
const NOW = "(SELECT now_ms FROM holdfast.receipts WHERE store = $1)";

/** What the only commit of a chain brings for the logs; of a longer chain each batch has a row of its own. */
function aloneIn([{ commit }, ...more]: Chain): Partial<Pick<Commit, "events" | "chunks">> {
  return more.length === 0 ? { events: commit.events, chunks: commit.chunks } : {};
}

function changeShown({ writer, ...change }: StateChange): object {
  if (writer === undefined) return change;
  const { writers, writerEpoch } = writer;
  return { ...change, writers: writersText(writers), writerCount: writers.length, writerEpoch };
}
