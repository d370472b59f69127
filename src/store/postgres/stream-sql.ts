/**
 * The statements by which a group changes streams. Each takes any number of streams at once, as arrays.
 *
 * The first statement that touches rows locks them in the order of their ids: the one that commits, or one before it that only locks. What follows never waits and sees what is there
 * now. Every change compares in its own `WHERE`, so what does not fit is left out (D1). What belongs to a stream (batches, blobs) is written for the rows that this very transaction has written: their `xmin` is its number.
 *
 * Everything is found by an index, row by row: the group's settings leave the planner no other way, however few rows there are yet.
 */
import { applyCommit, FIRST_HOST_EPOCH, newStreamState } from "../../core/stream-state.ts";
import type { SealedBlob } from "../blob-store.ts";
import { NO_COMMIT, shapeOf as commitShape } from "../group.ts";
import type { Commit, LogBatches, LogName } from "../stream-store.ts";
import { LOGS } from "../stream-store.ts";
import { randomUUID } from "node:crypto";
import type { Act, ClaimAct, CommitAct, CreateAct, ExpireAct, ReleaseAct, RenewAct } from "./acts.ts";
import type { Statement } from "./driver.ts";
import { type Chain, shapeOf } from "./plan.ts";
import { IDLE_SLOT_MS, PERIOD_MS } from "./schema.ts";
import { LOG_NUMBER, packedMacs, STREAM_COLUMNS, writersText } from "./stream-rows.ts";
import { bigints, bodies, texts } from "./wire-arrays.ts";

/** A row that this transaction has written. */
export const OURS = "s.xmin = pg_current_xact_id()::xid";

/** In the order of their names, everywhere: two nodes that make the same streams at once do not wait for each other in a circle. */
export function createStreams(store: number, acts: readonly CreateAct[]): readonly Statement[] {
  const states = acts.map(({ creation: { keyCheck, conversationCheck, first = NO_COMMIT } }) =>
    applyCommit(newStreamState(keyCheck, 0, FIRST_HOST_EPOCH, conversationCheck), commitShape(first), 0),
  );
  const names = namesOf(acts);
  return [
    {
      name: "holdfast-create",
      text: `INSERT INTO holdfast.streams (principal, idempotency_key, period, birth, key_check, conversation_check,
          created_ms, activity_ms, idle_slot, host_epoch, host_id, lease_ms, lease_until_ms,
          writers, writer_count, writer_epoch, next_seqno, event_head, event_floor, is_closed, is_aborted, end_reason)
        SELECT i.principal, i.idempotency_key, r.now_ms / ${PERIOD_MS}, i.birth, i.key_check, i.conversation_check,
          r.now_ms, r.now_ms, r.now_ms / ${IDLE_SLOT_MS}, ${FIRST_HOST_EPOCH}, i.host_id, i.lease_ms, r.now_ms + i.lease_ms,
          i.writers, i.writer_count, i.writer_epoch, i.next_seqno, i.event_head, i.event_floor, i.closes = 1, i.aborts = 1, i.end_reason
        FROM holdfast.receipts r,
          unnest($2::text[], $3::text[], $4::bigint[], $5::bytea[], $6::bytea[], $7::text[], $8::bigint[],
            $9::text[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[], $17::text[])
          AS i(principal, idempotency_key, birth, key_check, conversation_check, host_id, lease_ms,
            writers, writer_count, writer_epoch, next_seqno, event_head, event_floor, closes, aborts, end_reason)
        WHERE r.store = $1
        ON CONFLICT (principal, idempotency_key) DO NOTHING`,
      values: [
        store,
        ...names,
        bigints(acts.map(({ birth }) => birth)),
        bodies(states.map(({ keyCheck }) => keyCheck)),
        bodies(states.map(({ conversationCheck }) => conversationCheck)),
        texts(acts.map(({ creation }) => creation.host.hostId)),
        bigints(acts.map(({ creation }) => creation.host.leaseMs)),
        texts(states.map(({ writers }) => writersText(writers))),
        bigints(states.map(({ writers }) => writers.length)),
        bigints(states.map(({ writerEpoch }) => writerEpoch)),
        bigints(states.map(({ nextSeqno }) => nextSeqno)),
        bigints(states.map(({ eventHead }) => eventHead)),
        bigints(states.map(({ eventFloor }) => eventFloor)),
        bigints(states.map(({ closed }) => Number(closed))),
        bigints(states.map(({ aborted }) => Number(aborted))),
        texts(states.map(({ end }) => end)),
      ],
    },
    {
      // The insertion may have waited for a node that expired the stream: its tombstone is visible to this statement only (A7).
      name: "holdfast-unmake",
      text: `DELETE FROM holdfast.streams s USING unnest($1::text[], $2::text[]) AS i(principal, idempotency_key), holdfast.tombstones t
        WHERE t.principal = i.principal AND t.idempotency_key = i.idempotency_key
          AND s.principal = i.principal AND s.idempotency_key = i.idempotency_key AND ${OURS}`,
      values: names,
    },
  ];
}

function namesOf(acts: readonly Pick<CreateAct, "name">[]): [Buffer, Buffer] {
  return [texts(acts.map(({ name }) => name.principal)), texts(acts.map(({ name }) => name.idempotencyKey))];
}

/** What lies under names: a stream, a tombstone or nothing. `at` is the name's place in the list. */
export function lookUp(names: readonly Pick<CreateAct, "name">[]): Statement {
  return {
    name: "holdfast-look-up",
    text: `SELECT i.at::bigint AS at, ${STREAM_COLUMNS}, t.key_check AS gone_key_check, t.gone_ms, holdfast.now_ms() AS now_ms
      FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS i(principal, idempotency_key, at)
      LEFT JOIN holdfast.streams s ON s.principal = i.principal AND s.idempotency_key = i.idempotency_key
      LEFT JOIN holdfast.tombstones t ON t.principal = i.principal AND t.idempotency_key = i.idempotency_key`,
    values: namesOf(names),
  };
}

type Contents = Pick<Commit, "chunks" | "events" | "blobs">;

interface Owned {
  readonly name: CommitAct["name"];
  /** Of a stream that is being made it is not known yet. */
  readonly place: CommitAct["place"] | undefined;
  readonly contents: Contents;
}

function ownedBy(acts: readonly Act[], chains: readonly Chain[]): readonly Owned[] {
  const alone = new Set(chains.filter(({ length }) => length === 1).map(([act]) => act));
  return acts.flatMap((act): readonly Owned[] => {
    if (act.kind === "commit") {
      // Its batches are stored with it.
      if (!alone.has(act)) return [{ name: act.name, place: act.place, contents: act.commit }];
      const { blobs } = act.commit;
      return blobs === undefined
        ? []
        : [{ name: act.name, place: act.place, contents: { ...NO_COMMIT, blobs } }];
    }
    if (act.kind !== "create" || act.creation.first === undefined) return [];
    return [{ name: act.name, place: undefined, contents: act.creation.first }];
  });
}

interface OwnedBatch extends Pick<Owned, "name" | "place"> {
  readonly log: LogName;
  readonly batch: LogBatches[LogName];
}

/** Into the logs of streams that are there, by their ids; into those of streams that this group makes, by their names. */
function storeBatches(batches: readonly OwnedBatch[]): readonly Statement[] {
  const columns = (of: readonly OwnedBatch[]) => [
    bigints(of.map(({ log }) => LOG_NUMBER[log])),
    bigints(of.map(({ batch }) => batch.first)),
    bigints(of.map(({ batch }) => batch.count)),
    bodies(of.map(({ batch }) => batch.sealed)),
    bodies(of.map(({ batch }) => ("macs" in batch ? packedMacs(batch.macs) : undefined))),
  ];
  const into = `INSERT INTO holdfast.log (period, stream, log, first, count, sealed, macs)
        SELECT s.period, s.id, b.log::smallint, b.first, b.count, b.sealed, b.macs`;
  const statements: Statement[] = [];
  const there = batches.filter(({ place }) => place !== undefined);
  const made = batches.filter(({ place }) => place === undefined);
  if (there.length > 0) {
    statements.push({
      name: "holdfast-log",
      text: `${into} FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[], $6::bytea[])
          AS b(id, log, first, count, sealed, macs)
        CROSS JOIN LATERAL (SELECT s.period, s.id FROM holdfast.streams s WHERE s.id = b.id AND ${OURS} OFFSET 0) s`,
      values: [bigints(there.map(({ place }) => place?.id)), ...columns(there)],
    });
  }
  if (made.length > 0) {
    statements.push({
      name: "holdfast-first-log",
      text: `${into} FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[], $7::bytea[])
          AS b(principal, idempotency_key, log, first, count, sealed, macs)
        JOIN holdfast.streams s ON s.principal = b.principal AND s.idempotency_key = b.idempotency_key AND ${OURS}`,
      values: [...namesOf(made), ...columns(made)],
    });
  }
  return statements;
}

/** The bodies of all commits and creations that are not stored yet, for those streams that were written. */
export function storeContents(
  store: number,
  acts: readonly Act[],
  chains: readonly Chain[],
): readonly Statement[] {
  const owned = ownedBy(acts, chains);
  const batches = owned.flatMap(({ name, place, contents }) =>
    LOGS.flatMap((log: LogName): readonly OwnedBatch[] => {
      const batch = contents[log];
      return batch === undefined ? [] : [{ name, place, log, batch }];
    }),
  );
  const blobs = owned.flatMap(({ name, contents }) =>
    (contents.blobs ?? []).map((blob) => ({ name, blob, upload: randomUUID() })),
  );
  const statements = [...storeBatches(batches)];
  if (blobs.length > 0) statements.push(...storeBlobs(store, blobs));
  return statements;
}

interface OwnedBlob extends Pick<CommitAct, "name"> {
  readonly blob: SealedBlob;
  readonly upload: string;
}

function storeBlobs(store: number, blobs: readonly OwnedBlob[]): readonly Statement[] {
  const sorted = blobs.toSorted(({ blob: a }, { blob: b }) =>
    Buffer.compare(Buffer.from(`${a.space}\0${a.id}`), Buffer.from(`${b.space}\0${b.id}`)),
  );
  const named = [
    ...namesOf(sorted),
    texts(sorted.map(({ blob }) => blob.space)),
    texts(sorted.map(({ blob }) => blob.id)),
  ];
  const uploads = texts(sorted.map(({ upload }) => upload));
  const from =
    "JOIN holdfast.streams s ON s.principal = b.principal AND s.idempotency_key = b.idempotency_key AND s.xmin = pg_current_xact_id()::xid";
  return [
    {
      name: "holdfast-blob-replace",
      text: `DELETE FROM holdfast.blob_parts p
        USING unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS b(principal, idempotency_key, space, id)
          ${from} JOIN holdfast.blobs o ON o.space = b.space AND o.id = b.id
        WHERE p.upload = o.upload`,
      values: named,
    },
    {
      name: "holdfast-blob-parts",
      text: `INSERT INTO holdfast.blob_parts (upload, part, begun_ms, bytes)
        SELECT b.upload::uuid, 0, r.now_ms, b.sealed
        FROM holdfast.receipts r, unnest($2::text[], $3::text[], $4::text[], $5::bytea[]) AS b(principal, idempotency_key, upload, sealed) ${from}
        WHERE r.store = $1`,
      values: [store, ...namesOf(sorted), uploads, bodies(sorted.map(({ blob }) => blob.sealed))],
    },
    {
      name: "holdfast-blob-names",
      text: `INSERT INTO holdfast.blobs (space, id, upload, stored_bytes, stored_ms)
        SELECT DISTINCT ON (b.space, b.id) b.space, b.id, b.upload::uuid, b.stored_bytes, r.now_ms
        FROM holdfast.receipts r, unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[])
          AS b(principal, idempotency_key, space, id, upload, stored_bytes) ${from}
        WHERE r.store = $1 ORDER BY b.space, b.id
        ON CONFLICT (space, id) DO UPDATE
          SET upload = excluded.upload, stored_bytes = excluded.stored_bytes, stored_ms = excluded.stored_ms`,
      values: [store, ...named, uploads, bigints(sorted.map(({ blob }) => blob.sealed.byteLength))],
    },
    {
      name: "holdfast-blob-spaces",
      text: `INSERT INTO holdfast.blob_spaces (space, ends_ms)
        SELECT b.space, max(r.now_ms + b.keep_ms)
        FROM holdfast.receipts r, unnest($2::text[], $3::text[], $4::text[], $5::bigint[])
          AS b(principal, idempotency_key, space, keep_ms) ${from}
        WHERE r.store = $1 AND b.keep_ms IS NOT NULL GROUP BY b.space ORDER BY b.space
        ON CONFLICT (space) DO UPDATE SET ends_ms = excluded.ends_ms`,
      values: [
        store,
        ...namesOf(sorted),
        texts(sorted.map(({ blob }) => blob.space)),
        bigints(sorted.map(({ blob }) => blob.keepMs)),
      ],
    },
  ];
}

/** Batches that the floor has passed are gone (B5). */
export function trimLogs(chains: readonly Chain[]): Statement | undefined {
  const risen = chains.flatMap((chain) => {
    const { eventFloor } = shapeOf(chain).change;
    return eventFloor === undefined ? [] : [{ place: chain[0].place, eventFloor }];
  });
  if (risen.length === 0) return undefined;
  return {
    name: "holdfast-trim",
    text: `DELETE FROM holdfast.log l
      USING unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS i(period, id, floor) JOIN holdfast.streams s ON s.id = i.id AND ${OURS}
      WHERE l.period = i.period AND l.stream = i.id AND l.log = ${LOG_NUMBER.events}
        AND l.first < i.floor AND l.first + l.count <= i.floor`,
    values: [
      bigints(risen.map(({ place }) => place.period)),
      bigints(risen.map(({ place }) => place.id)),
      bigints(risen.map(({ eventFloor }) => eventFloor)),
    ],
  };
}

export function claimStreams(store: number, acts: readonly ClaimAct[]): Statement {
  return {
    name: "holdfast-claim",
    text: `UPDATE holdfast.streams s SET host_epoch = s.host_epoch + 1, host_id = i.host_id,
        lease_ms = i.lease_ms, lease_until_ms = r.now_ms + i.lease_ms
      FROM holdfast.receipts r, unnest($2::bigint[], $3::text[], $4::bigint[]) AS i(id, host_id, lease_ms)
      WHERE r.store = $1 AND s.id = i.id AND (s.host_id = i.host_id OR s.lease_until_ms <= r.now_ms)
      RETURNING s.id`,
    values: [
      store,
      bigints(acts.map(({ place }) => place.id)),
      texts(acts.map(({ host }) => host.hostId)),
      bigints(acts.map(({ host }) => host.leaseMs)),
    ],
  };
}

export function renewLeases(store: number, acts: readonly RenewAct[]): Statement {
  return {
    name: "holdfast-renew",
    text: `UPDATE holdfast.streams s SET lease_until_ms = greatest(s.lease_until_ms, r.now_ms + i.lease_ms)
      FROM holdfast.receipts r, unnest($2::bigint[], $3::bigint[], $4::bigint[]) AS i(id, host_epoch, lease_ms)
      WHERE r.store = $1 AND s.id = i.id AND s.host_epoch = i.host_epoch
      RETURNING s.id`,
    values: [
      store,
      bigints(acts.map(({ place }) => place.id)),
      bigints(acts.map(({ hostEpoch }) => hostEpoch)),
      bigints(acts.map(({ leaseMs }) => leaseMs)),
    ],
  };
}

export function releaseLeases(acts: readonly ReleaseAct[]): Statement {
  return {
    name: "holdfast-release",
    text: `UPDATE holdfast.streams s SET lease_ms = 0, lease_until_ms = 0
      FROM unnest($1::bigint[], $2::bigint[]) AS i(id, host_epoch)
      WHERE s.id = i.id AND s.host_epoch = i.host_epoch
      RETURNING s.id`,
    values: [bigints(acts.map(({ place }) => place.id)), bigints(acts.map(({ hostEpoch }) => hostEpoch))],
  };
}

export function expireStreams(store: number, acts: readonly ExpireAct[]): Statement {
  return {
    name: "holdfast-expire",
    text: `WITH gone AS (
        DELETE FROM holdfast.streams s USING unnest($2::bigint[], $3::bigint[]) AS i(id, host_epoch)
        WHERE s.id = i.id AND s.host_epoch = i.host_epoch
        RETURNING s.id, s.period, s.principal, s.idempotency_key, s.key_check
      ), kept AS (
        INSERT INTO holdfast.tombstones (principal, idempotency_key, key_check, gone_ms)
        SELECT g.principal, g.idempotency_key, g.key_check, r.now_ms FROM gone g, holdfast.receipts r WHERE r.store = $1
        ON CONFLICT (principal, idempotency_key) DO UPDATE SET key_check = excluded.key_check, gone_ms = excluded.gone_ms
      ), logs AS (
        DELETE FROM holdfast.log l USING gone g WHERE l.period = g.period AND l.stream = g.id
      ) SELECT id FROM gone`,
    values: [
      store,
      bigints(acts.map(({ place }) => place.id)),
      bigints(acts.map(({ hostEpoch }) => hostEpoch)),
    ],
  };
}
