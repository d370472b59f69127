/**
 * The statements about letters between nodes.
 */
import type { Letter, NewLetter } from "../letters.ts";
import { bytes, number, type Row, type Statement, text } from "./driver.ts";
import type { Chain } from "./plan.ts";
import { OURS } from "./stream-sql.ts";
import { bigints } from "./wire-arrays.ts";

export function postLetter({ to, name, hostEpoch, sealed }: NewLetter): Statement {
  return {
    name: "holdfast-post",
    text: `INSERT INTO holdfast.letters (host_id, principal, idempotency_key, host_epoch, posted_ms, sealed)
      VALUES ($1, $2, $3, $4, holdfast.now_ms(), $5)`,
    values: [to, name.principal, name.idempotencyKey, hostEpoch, Buffer.from(sealed)],
  };
}

export function readLetters(to: string, countMax: number): Statement {
  return {
    name: "holdfast-letters",
    text: `SELECT number, principal, idempotency_key, host_epoch, sealed FROM holdfast.letters
      WHERE host_id = $1 ORDER BY number LIMIT $2`,
    values: [to, countMax],
  };
}

export function letterIn(row: Row): Letter {
  return {
    number: number(row, "number"),
    name: { principal: text(row, "principal"), idempotencyKey: text(row, "idempotency_key") },
    hostEpoch: number(row, "host_epoch"),
    sealed: bytes(row, "sealed"),
  };
}

export function discardLetters(numbers: readonly number[]): Statement {
  return {
    name: "holdfast-discard",
    text: "DELETE FROM holdfast.letters WHERE number = ANY($1::bigint[])",
    values: [bigints(numbers)],
  };
}

/** Those that no node will read: to a node that is gone. */
export function discardOldLetters(olderMs: number): Statement {
  return {
    text: "DELETE FROM holdfast.letters WHERE posted_ms < holdfast.now_ms() - $1::bigint",
    values: [olderMs],
  };
}

/** The letters that commits deal with, for those commits that happen. */
export function removeLetters(chains: readonly Chain[]): Statement | undefined {
  const dealt = chains.flatMap((chain) =>
    chain.flatMap(({ place, commit }) =>
      (commit.letters ?? []).map((letter) => ({ letter, stream: place.id })),
    ),
  );
  if (dealt.length === 0) return undefined;
  return {
    name: "holdfast-letters-dealt",
    text: `DELETE FROM holdfast.letters l
      USING unnest($1::bigint[], $2::bigint[]) AS i(number, stream) JOIN holdfast.streams s ON s.id = i.stream AND ${OURS}
      WHERE l.number = i.number`,
    values: [bigints(dealt.map(({ letter }) => letter)), bigints(dealt.map(({ stream }) => stream))],
  };
}
