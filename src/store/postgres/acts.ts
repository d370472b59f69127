/**
 * What can be asked of a group: one act each, with what it touches.
 *
 * An act is plain data, so that which of them share a group, and what each is answered, is decided by pure functions (`plan.ts`, `verdicts.ts`)
 * and not by the driver.
 */
import type { StreamName, StreamState } from "../../core/stream-state.ts";
import type { TableWrite } from "../table-store.ts";
import type { Commit, Creation, HostLease } from "../stream-store.ts";
import type { Statement } from "./driver.ts";

/** What a stream has from its beginning, for ever. */
export type Origin = Pick<StreamState, "keyCheck" | "conversationCheck" | "createdMs">;

/** A stream by the number of its row. */
export interface StreamPlace {
  readonly id: number;
  readonly period: number;
  readonly origin: Origin;
}

interface OnStream {
  readonly name: StreamName;
  readonly place: StreamPlace;
}

export interface CommitAct extends OnStream {
  readonly kind: "commit";
  readonly commit: Commit;
}

export interface ClaimAct extends OnStream {
  readonly kind: "claim";
  readonly host: HostLease;
}

export interface RenewAct extends OnStream {
  readonly kind: "renew";
  readonly hostEpoch: number;
  readonly leaseMs: number;
}

export interface ReleaseAct extends OnStream {
  readonly kind: "release";
  readonly hostEpoch: number;
}

export interface ExpireAct extends OnStream {
  readonly kind: "expire";
  readonly hostEpoch: number;
}

export interface CreateAct {
  readonly kind: "create";
  readonly name: StreamName;
  readonly creation: Creation;
  /** Drawn for this act. */
  readonly birth: number;
}

/** A batch of table writes: all or none. */
export interface WriteAct {
  readonly kind: "write";
  readonly writes: readonly TableWrite[];
}

/** One statement that may be carried out twice without harm. */
export interface StatementAct {
  readonly kind: "statement";
  readonly statement: Statement;
  /** The node to notify of it. */
  readonly tells?: string;
}

export type StreamAct = CommitAct | ClaimAct | RenewAct | ReleaseAct | ExpireAct | CreateAct;
export type Act = StreamAct | WriteAct | StatementAct;

/** How many bytes of bodies an act brings. */
export function bytesOf(act: Act): number {
  switch (act.kind) {
    case "commit":
      return bytesIn(act.commit);
    case "create":
      return bytesIn(act.creation.first);
    case "write":
      return act.writes.reduce((sum, write) => sum + (write.kind === "put" ? write.value.byteLength : 0), 0);
    default:
      return 0;
  }
}

function bytesIn(commit: Pick<Commit, "chunks" | "events" | "blobs"> | undefined): number {
  const bodies = [commit?.chunks, commit?.events, ...(commit?.blobs ?? [])];
  return bodies.reduce((sum, body) => sum + (body?.sealed.byteLength ?? 0), 0);
}
